# sockfuse: builds $(BUILD)/libsockfuse.so and $(BUILD)/sockfuse. `make help` lists what else there is.
#
# Everything made goes under $(BUILD). Sources are found by wildcard: the core (breaker, policy, segment) is compiled
# once, position-independent, and used by the library, by the command and by the tests.

VERSION := 0.1.0

PREFIX  ?= /usr/local
DESTDIR ?=
BINDIR  ?= $(PREFIX)/bin
LIBDIR  ?= $(PREFIX)/lib/sockfuse
LIBEXECDIR ?= $(PREFIX)/libexec/sockfuse
DATADIR ?= $(PREFIX)/share/sockfuse
MANDIR  ?= $(PREFIX)/share/man
COMPDIR ?= $(PREFIX)/share/bash-completion/completions
# Where systemd looks for units, of this machine's services and of each user's.
UNITDIR ?= $(PREFIX)/lib/systemd/system
USERUNITDIR ?= $(PREFIX)/lib/systemd/user

BUILD   ?= build
# The command knows where it will be installed. For one of another place, made of the same objects: a folder of its own.
PLACED  ?= $(BUILD)
# By one name, however it is called: what an object depends on is noted under the name that it had.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
override PLACED := $(patsubst $(CURDIR)/%,%,$(abspath $(PLACED)))
CC      ?= cc
CFLAGS  ?= -O2 -g
LDFLAGS ?=
# For the library's link alone, e.g. --defsym or --wrap.
PRELOAD_LDFLAGS ?=
# E.g. SANITIZE=address,undefined: for the core and the unit tests; the library itself is never built so.
SANITIZE ?=
# COVERAGE=1, with a BUILD of its own and gcc: src counts what is run of it, see scripts/coverage.
COVERAGE ?=
# The command's files have no library of their own: its unit tests include them.
COUNTED = $(BUILD)/src/% $(BUILD)/tests/unit/test_cli_% $(BUILD)/tests/unit/test_view_%

# The library's own calls are short and many: with gcc they are inlined across files, which saves a fifth of what a
# guarded call costs (make bench). Its objects hold ordinary code too, which is what the command and the tests link.
IS_CLANG := $(shell $(CC) -dM -E -x c /dev/null 2>/dev/null | grep -c __clang__)
LTO := $(if $(SANITIZE)$(COVERAGE),,$(if $(filter 0,$(IS_CLANG)),-flto=auto -ffat-lto-objects))

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
# A warning is an error for those who build the tests; a newer compiler that warns of more must build the rest too.
# Not among the remembered flags, or `make` and then `make test` would build all twice: instead, an object's warnings
# are kept beside it, and where they are errors it is compiled again.
WERROR ?= $(if $(filter test% %-programs check-%,$(MAKECMDGOALS)),-Werror)
# What is built is the same in whatever folder that is done: debuggers look for sources below the current one.
ANYWHERE := -fdebug-prefix-map=$(CURDIR)=.
# Thread-local data of a preloaded library must need neither malloc nor a lock at first use, hence initial-exec.
# Fortified wrappers would send the library's own reads through the _chk symbols that it interposes.
# All is bound at the start: so functions of libc are called by their addresses, not through a table of jumps to them.
FLAGS = -std=gnu11 $(CFLAGS) $(ANYWHERE) $(WARNINGS) -fPIC -fno-plt -fvisibility=hidden -ftls-model=initial-exec \
        -ffunction-sections -fdata-sections -U_FORTIFY_SOURCE -Isrc -DSOCKFUSE_VERSION='"$(VERSION)"' \
        $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
        $(if $(COVERAGE),$(if $(filter $(COUNTED),$@),--coverage -fprofile-update=atomic))
DEPFLAGS = -MMD -MP
# One short line for each file; V=1 shows the whole commands.
Q = $(if $(V),,@printf '  %-4s %s\n' $(1) '$@' &&)
LINKER = $(CC) $(CFLAGS) $(ANYWHERE) $(LDFLAGS) $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(if $(COVERAGE),--coverage) \
         -Wl,--as-needed -Wl,--gc-sections
LINK = $(LINKER) $(if $(LTO),-fno-lto)

# What a wrapper calls may run on a signal stack of 8 KiB. The link sees what has come in line across files. (A
# sanitizer's frames are larger, and so are those that count; they are in no host.)
FRAME_LIMIT := $(if $(SANITIZE)$(COVERAGE),,-Wframe-larger-than=1024)

# Static, so that libc is the only library that enters somebody else's process with us.
LIBBSD := $(shell $(CC) -print-file-name=libbsd.a) $(shell $(CC) -print-file-name=libmd.a)

# `sockfuse top` is by ncurses, for the command alone. Linked statically where that can be had, so that no command
# asks for one more library when it starts; else as it is there; else the command says what is missing.
CURSES_LIBS := -lncursesw -ltinfo
CURSES_WAYS := "-Wl,-Bstatic $(CURSES_LIBS) -Wl,-Bdynamic" "$(CURSES_LIBS)" -lncursesw
CURSES := $(shell for way in $(CURSES_WAYS); do \
                      printf '#include <curses.h>\n\043include <term.h>\nint main(void) { return get_wch(0) + !tigetstr("cup"); }' | \
                      $(CC) -DNCURSES_WIDECHAR=1 -x c -o /dev/null - -x none $$way 2>/dev/null && echo "$$way" && break; done)

# The agent is a program of its own, so that no other command links what it alone needs: its loop is libev's. Where that
# is missing there is no agent, and the command says how to get it.
EVENT_WAYS := "-Wl,-Bstatic -lev -Wl,-Bdynamic -lm" -lev
EVENT_LOOP := $(shell for way in $(EVENT_WAYS); do \
                          printf '#include <ev.h>\nint main(void) { return ev_default_loop(0) != 0; }' | \
                          $(CC) -x c -o /dev/null - -x none $$way 2>/dev/null && echo "$$way" && break; done)

# By hiredis it speaks to a fleet's Redis; where that is missing, it says so when it is asked to.
REDIS_WAYS := "-Wl,-Bstatic -lhiredis -Wl,-Bdynamic" -lhiredis
REDIS := $(shell for way in $(REDIS_WAYS); do \
                     printf '#include <hiredis/hiredis.h>\nint main(void) { return redisReaderCreate() != 0; }' | \
                     $(CC) -x c -o /dev/null - -x none $$way 2>/dev/null && echo "$$way" && break; done)

# And TLS to it by OpenSSL, which is loaded when it is needed: its headers alone are read.
TLS := $(shell printf '\043include <openssl/ssl.h>\nint main(void) { return OPENSSL_SHLIB_VERSION; }' | \
               $(CC) -x c -fsyntax-only - 2>/dev/null && echo yes)

# HTTP by libmicrohttpd, which is loaded when it is needed: its header alone is read.
HTTPD := $(shell printf '\043include <microhttpd.h>\nint main(void) { return MHD_VERSION; }' | \
                 $(CC) -x c -fsyntax-only - 2>/dev/null && echo yes)

objects = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)))
CORE    := $(call objects,$(patsubst %,src/%/*.c,base breaker policy segment guard))
CONNECTION := $(call objects,src/connection/*.c)
PRELOAD := $(CONNECTION) $(call objects,src/preload/*.c)
# The command: what it looks with and shows, and what its words do.
KNOWS_PLACE := $(PLACED)/src/view/installed.o
VIEW    := $(filter-out %/installed.o,$(call objects,src/view/*.c)) $(KNOWS_PLACE)
NOTIFY  := $(call objects,src/notify/*.c)
CLI     := $(VIEW) $(NOTIFY) $(call objects,src/cli/*.c)
AGENT   := $(call objects,src/agent/*.c)
LIBRARY := $(BUILD)/libsockfuse.so
COMMAND := $(PLACED)/sockfuse
DAEMON  := $(PLACED)/sockfuse-agent

# The page of `sockfuse report` is made where Node.js and the packages of src/report are there, as scripts/page leaves
# them; `make` fetches nothing. Without the page all else is whole, and `report` says how to get it.
PAGE       := $(BUILD)/report.html
PAGE_PARTS := $(BUILD)/page
HAS_PARTS  := $(shell command -v node >/dev/null && [ -d $(PAGE_PARTS)/node_modules ] && \
                      cmp -s src/report/package-lock.json $(PAGE_PARTS)/package-lock.json && echo yes)

# The agent's units, which know where the command is installed.
UNITS   := $(PLACED)/systemd/system.service $(PLACED)/systemd/user.service

all: $(LIBRARY) $(COMMAND) $(if $(EVENT_LOOP),$(DAEMON) $(UNITS)) $(if $(HAS_PARTS),$(PAGE)) ## build the library and the command (the default)

# What is asked for by its whole path is known by the one name that it has here.
$(filter $(CURDIR)/%,$(MAKECMDGOALS)): $(CURDIR)/%: % ;

$(PAGE): $(wildcard src/report/*.*) $(PAGE_PARTS)/package-lock.json
	$(call Q,PAGE) node src/report/build.mjs $(PAGE_PARTS)/node_modules $@ || \
	    { rm -f $@; echo 'page: sockfuse report is without its page; the rest is not touched' >&2; }

page: ## the page of `sockfuse report`; fetches what it is made of
	@BUILD=$(BUILD) scripts/page

$(CORE) $(PRELOAD): EXTRA = $(LTO) $(FRAME_LIMIT)
# Reading a policy's text: commands do that, and the library in its constructor, on the stack of a program's start or of
# dlopen. They stay out of the link's inlining, which knows of no exceptions.
AT_START := $(patsubst %,$(BUILD)/src/policy/%.o,agent_section contradiction contradiction_agent discover faults file_path listen_address pattern policy redis_url target)
$(AT_START): EXTRA = -Wno-frame-larger-than

# A start pays for mappings and pages. So code and constants are one mapping (noseparate-code), and variables are sorted
# so that the small ones, which are those that a start writes, lie together.
LAYOUT := -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,-z,noseparate-code
$(LIBRARY): $(CORE) $(PRELOAD) $(BUILD)/exports.map $(BUILD)/aliases.ld $(BUILD)/ordered.ld
	$(call Q,LINK) $(LINKER) $(LTO) $(if $(LTO),$(FRAME_LIMIT) $(WERROR)) -shared -Wl,-soname,$(@F) -Wl,-z,defs $(LAYOUT) \
	    -fno-plt -ffunction-sections -fdata-sections -Wl,--sort-section=alignment \
	    -Wl,--version-script=$(BUILD)/exports.map -Wl,--exclude-libs,ALL $(PRELOAD_LDFLAGS) \
	    -o $@ $(PRELOAD) $(CORE) $(BUILD)/aliases.ld $(LIBBSD) \
	    $$([ ! -s $(BUILD)/ordered.ld ] || echo -Wl,-T,$(BUILD)/ordered.ld)

# The linker's own script with the order of what is HOT, and of what a start touches. A linker that shows none (it is not
# GNU's) goes without.
ORDER := src/preload/start.ld src/preload/order.ld src/preload/variables.ld
$(BUILD)/ordered.ld: $(ORDER) $(BUILD)/src/base/bare.o
	$(call Q,MAP) { $(LINK) -shared -nostdlib $(LAYOUT) -Wl,--verbose -o $@.shown $(BUILD)/src/base/bare.o 2>&1 || :; } | \
	    sed -e '1,/^=====/d' -e '/^=====/,$$d' | \
	    sed -e '/^  \.text  *:/{n;r $(word 1,$(ORDER))' -e 'r $(word 2,$(ORDER))' -e '}' \
	        -e '/^  \.bss  *:/{n;r $(word 3,$(ORDER))' -e '}' | \
	    sed -e 's/^    START(\(.*\))$$/    *($(foreach part,.text .text.startup .text.unlikely,$(part).\1 $(part).\1.*))/' >$@; rm -f $@.shown

# For 32-bit programs of an x86-64 machine; run finds it there.
lib32: ## the library for 32-bit programs, in $(BUILD)/32; fetches the libbsd that it needs
	@BUILD=$(BUILD) scripts/lib32

# For programs of another C library, as Alpine's; run finds it there.
musl: ## the library for programs of musl, in $(BUILD)/musl
	@BUILD=$(BUILD) scripts/musl

# On another machine than one of 64-bit ARM: with Debian's cross compiler, and QEMU's processor.
arm64: ## library, command and agent for 64-bit ARM, in $(BUILD)/arm64; fetches what that needs
	@BUILD=$(BUILD) scripts/arm64
test-arm64: ## the tests of tests/unit and tests/preload for it, on QEMU (TESTS=FILES: those); some 20 minutes
	@BUILD=$(BUILD) scripts/arm64 test

$(COMMAND): $(CLI) $(CORE)
	$(call Q,LINK) $(LINK) -Wl,--export-dynamic-symbol=sockfuse_command -o $@ $(filter %.o,$^) $(LIBBSD) $(CURSES)

$(DAEMON): $(AGENT) $(VIEW) $(CORE)
	$(call Q,LINK) $(LINK) -Wl,-z,now -Wl,--export-dynamic-symbol=sockfuse_command -o $@ $(filter %.o,$^) $(LIBBSD) $(EVENT_LOOP) $(REDIS)

$(UNITS): $(PLACED)/%: src/%.in $(PLACED)/libdir
	@mkdir -p $(@D)
	$(call Q,UNIT) sed 's,@BINDIR@,$(BINDIR),' $< >$@

# The preprocessor turns the one table of symbols into the linker's lists: what the library exports, and under which
# further names.
$(BUILD)/exports.map $(BUILD)/aliases.ld: $(BUILD)/%: src/preload/%.in src/preload/symbols.def $(BUILD)/flags
	$(call Q,MAP) $(CC) -E -P -x c -Isrc -Isrc/preload -o $@ $<

define compile
@mkdir -p $(@D)
$(call Q,CC) $(CC) $(FLAGS) $(WERROR) $(EXTRA) $(DEPFLAGS) -c -o $@ $< 2>$@.said; \
    status=$$?; cat $@.said >&2; exit $$status
endef
$(BUILD)/%.o: %.c $(BUILD)/flags
	$(compile)

WARNED := $(if $(WERROR),$(patsubst %.said,%,$(shell find $(BUILD)/src $(BUILD)/tests -name '*.o.said' -size +0 \
                                                          2>/dev/null)))
$(WARNED): always

$(KNOWS_PLACE): EXTRA = -DSOCKFUSE_LIBDIR='"$(LIBDIR)"' -DSOCKFUSE_DATADIR='"$(DATADIR)"' \
                        -DSOCKFUSE_LIBEXECDIR='"$(LIBEXECDIR)"'
$(KNOWS_PLACE): src/view/installed.c src/view/installed.h $(BUILD)/flags $(PLACED)/libdir
	$(compile)
HAS_CURSES := $(if $(CURSES),-DSOCKFUSE_CURSES)
$(BUILD)/src/cli/top_terminal.o: EXTRA = $(HAS_CURSES)
$(BUILD)/src/cli/top_terminal.o $(COMMAND): $(BUILD)/curses
$(DAEMON): $(BUILD)/eventloop
SPEAKS_REDIS := $(patsubst %,$(BUILD)/src/agent/%.o,redis_absent redis_connection redis_speech)
$(SPEAKS_REDIS): EXTRA = $(if $(REDIS),-DSOCKFUSE_HIREDIS)
$(SPEAKS_REDIS) $(DAEMON): $(BUILD)/redis
SPEAKS_TLS := $(patsubst %,$(BUILD)/src/%.o,agent/redis_tls agent/redis_tls_absent view/tls_library)
$(SPEAKS_TLS): EXTRA = $(if $(TLS),-DSOCKFUSE_TLS)
$(SPEAKS_TLS): $(BUILD)/tls
SPEAKS_HTTP := $(patsubst %,$(BUILD)/src/agent/%.o,web_absent web_flow web_kept web_library web_patience web_route web_server)
$(SPEAKS_HTTP): EXTRA = $(if $(HTTPD),-DSOCKFUSE_HTTPD)
$(SPEAKS_HTTP): $(BUILD)/httpd

# Files that change only when what they hold does: another compiler or other flags build anew, as they must.
$(BUILD)/flags: remembered = $(CC) $(FLAGS) $(LTO) $(FRAME_LIMIT) $(COVERAGE)
$(PLACED)/libdir: remembered = $(LIBDIR) $(DATADIR) $(LIBEXECDIR) $(BINDIR)
$(BUILD)/eventloop: remembered = $(EVENT_LOOP)
$(BUILD)/redis: remembered = $(REDIS)
$(BUILD)/tls: remembered = $(TLS)
$(BUILD)/httpd: remembered = $(HTTPD)
$(BUILD)/curses: remembered = $(CURSES)
$(BUILD)/fuzz/flags: remembered = $(FUZZ_CC) $(FUZZ_FLAGS)
$(BUILD)/flags $(PLACED)/libdir $(BUILD)/curses $(BUILD)/eventloop $(BUILD)/redis $(BUILD)/tls $(BUILD)/httpd $(BUILD)/fuzz/flags: always
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(remembered))' | cmp -s - $@ || \
	    printf '%s\n' '$(subst ','\'',$(remembered))' >$@

# --- tests -----------------------------------------------------------------------------------------------------------
# tests/unit/test_*.c and stress_*.c are cmocka programs with the core inside; tests/preload/test_*.c are programs
# that run under the library, so they have nothing of it inside, except those that say `links: core`.

programs = $(patsubst %.c,$(BUILD)/%,$(wildcard $(1)))
UNIT_TESTS     := $(call programs,tests/unit/test_*.c)
STRESS_TESTS   := $(call programs,tests/unit/stress_*.c)
PRELOAD_TESTS  := $(call programs,tests/preload/test_*.c)
# Those that start threads.
THREADED       := $(patsubst %.c,$(BUILD)/%,$(shell grep -ls pthread_create tests/unit/test_*.c tests/unit/stress_*.c))
BENCHMARKS     := $(filter-out $(if $(EVENT_LOOP),,%/fleet_hosts),$(call programs,tests/bench/*.c))
# The scripted kernel and the engine around it, for tests that say `links: connection`.
ENGINE_SUPPORT := $(call objects,tests/unit/support_kernel*.c tests/unit/support_engine*.c)
# Hosts of a fleet, for those that say `links: agent`.
FLEET_SUPPORT  := $(call objects,tests/unit/support_fleet.c)
UNIT_SUPPORT   := $(filter-out $(ENGINE_SUPPORT) $(FLEET_SUPPORT),$(call objects,tests/unit/support*.c))
PRELOAD_SUPPORT := $(call objects,tests/preload/support*.c)
WITH_CONNECTION := $(patsubst %.c,$(BUILD)/%,$(shell grep -ls 'links: connection' tests/unit/*.c))
# The parts of the command, without its main, for tests that say `links: command`; of the agent: `links: agent`.
WITH_COMMAND := $(patsubst %.c,$(BUILD)/%,$(shell grep -ls 'links: command' tests/unit/*.c))
WITH_AGENT   := $(patsubst %.c,$(BUILD)/%,$(shell grep -ls 'links: agent' tests/unit/*.c))
WITH_CORE := $(patsubst %.c,$(BUILD)/%,$(shell grep -ls 'links: core' tests/preload/test_*.c))

# With the sources that they throw bytes at, which need be built with the fuzzer's instrumentation too.
FUZZERS      := $(call programs,tests/fuzz/fuzz_*.c)
FUZZ_CC      ?= clang
FUZZ_SOURCES := $(wildcard src/base/*.c src/breaker/*.c src/policy/*.c) tests/unit/support_http.c
# E.g. FUZZ_ALONE=1, with a BUILD of its own: without libFuzzer, see tests/fuzz/alone.c.
FUZZ_ALONE   ?=
FUZZ_MAIN    := $(if $(FUZZ_ALONE),tests/fuzz/alone.c)
FUZZ_PARTS   := $(patsubst %.c,$(BUILD)/fuzz/%.o,$(FUZZ_MAIN) $(FUZZ_SOURCES))
FUZZ_FLAGS    = -std=gnu11 -g -O1 $(WARNINGS) $(WERROR) -fsanitize=$(if $(FUZZ_MAIN),,fuzzer,)address,undefined \
                -fno-sanitize-recover=all -Isrc -Itests/unit -DSOCKFUSE_VERSION='"$(VERSION)"'

unit-programs: $(UNIT_TESTS) $(STRESS_TESTS)
threaded-programs: $(THREADED)
preload-programs: all $(PRELOAD_TESTS)
bench-programs: all $(BENCHMARKS)
fuzz-programs: $(FUZZERS)
test-programs: unit-programs preload-programs bench-programs

$(WITH_CONNECTION): $(ENGINE_SUPPORT) $(CONNECTION)
$(WITH_COMMAND): $(filter-out %/main.o,$(CLI))
$(WITH_AGENT): $(FLEET_SUPPORT) $(VIEW) $(filter-out %/agent_main.o,$(AGENT))
$(UNIT_TESTS) $(STRESS_TESTS): $(BUILD)/%: $(BUILD)/%.o $(UNIT_SUPPORT) $(CORE)
	$(call Q,LINK) $(LINK) -o $@ $^ -lcmocka -pthread $(LIBBSD) $(if $(filter $@,$(WITH_COMMAND)),$(CURSES)) \
	    $(if $(filter $@,$(WITH_AGENT)),$(EVENT_LOOP) $(REDIS))

$(WITH_CORE): $(CORE)
$(BUILD)/tests/preload/test_differential: $(call objects,tests/preload/differential/*.c)
$(PRELOAD_TESTS): $(BUILD)/%: $(BUILD)/%.o $(PRELOAD_SUPPORT)
	$(call Q,LINK) $(LINK) -o $@ $^ -lcmocka -pthread -ldl $(if $(filter $@,$(WITH_CORE)),-lc $(LIBBSD))

BENCHED_AGENT := $(BUILD)/tests/bench/fleet_hosts
$(BENCHED_AGENT): $(filter-out %/agent_main.o,$(AGENT)) $(VIEW) $(CORE)
$(BENCHMARKS): $(BUILD)/%: $(BUILD)/%.o
	$(call Q,LINK) $(LINK) -o $@ $^ -pthread $(if $(filter $@,$(BENCHED_AGENT)),$(LIBBSD) $(EVENT_LOOP) $(REDIS))

$(BUILD)/fuzz/%.o: %.c $(BUILD)/fuzz/flags
	@mkdir -p $(@D)
	$(call Q,CC) $(FUZZ_CC) $(FUZZ_FLAGS) $(DEPFLAGS) -c -o $@ $<

$(FUZZERS): $(BUILD)/%: $(BUILD)/fuzz/%.o $(FUZZ_PARTS)
	@mkdir -p $(@D)
	$(call Q,FUZZ) $(FUZZ_CC) $(FUZZ_FLAGS) -o $@ $^ $(LIBBSD)

demo: ## the main job, on the screen, in under a minute
	@BUILD=$(BUILD) scripts/demo
cascade: ## a page that dies of another's dependency, without sockfuse and with it, and the picture of that
	@scripts/setup cascade
	@$(MAKE) --no-print-directory BUILD=$(BUILD) all
	@BUILD=$(BUILD) /usr/bin/python3 -B scripts/cascade
test: ## every test; installs what the tests need and is missing
	@BUILD=$(BUILD) scripts/test
test-unit: ## the core's tests
	@BUILD=$(BUILD) scripts/test unit
test-preload: ## C programs under the library
	@BUILD=$(BUILD) scripts/test preload
test-e2e: ## real programs under the library (ONLY=curl narrows the matrix)
	@BUILD=$(BUILD) scripts/test e2e
matrix: all ## real programs against real faults, as a table (ONLY=curl, ONLY=curl/silent, ONLY=/silent)
	@scripts/setup test
	@SOCKFUSE_BUILD=$(BUILD) PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/e2e/test_matrix.py
lint: ## what clang-format, clang-tidy, cppcheck, shellcheck and pyflakes have to say
	@BUILD=$(BUILD) scripts/test lint
lint-deep: ## clang's analyzer without a limit, over src: some minutes
	@scripts/setup test
	@BUILD=$(BUILD) DEEP=1 scripts/lint tidy
check-sanitizers: ## the core's tests under ASan, UBSan and TSan
	@BUILD=$(BUILD) scripts/test sanitizers
coverage: ## lines and branches of each room that tests reach, in some minutes (FILES=1: of each file)
	@BUILD=$(BUILD) WHOLE=1 scripts/test coverage
fuzz: ## random bytes for the readers of policies and of HTTP (RUNS=20000, SEED=1)
	@BUILD=$(BUILD) scripts/test fuzz
fresh: ## both commands of the README in a newly installed Debian (RELEASE=bookworm; STAGES=... as of scripts/test)
	@BUILD=$(BUILD) scripts/fresh $(or $(RELEASE),bookworm) $(STAGES)
deb: ## Debian's package, in $(BUILD) (SUFFIX=+ours1: a later version)
	@BUILD=$(BUILD) scripts/deb
test-deb: ## that package in newly made systems of Debian 12 and 13 (RELEASE=bookworm: one); some minutes
	@BUILD=$(BUILD) scripts/deb test $(RELEASE)
suites: ## other projects' tests of the network, bare and guarded; installs what they need
	@BUILD=$(BUILD) scripts/suites
bench: ## what the library costs, as ratios, in a few minutes (ROUNDS=20: longer, ONLY=redis: a part)
	@BUILD=$(BUILD) scripts/bench

# --- lint ------------------------------------------------------------------------------------------------------------

# Libraries that the tests compile by themselves (helpers) lack what they are compiled with.
LOOKED_AT := $(wildcard src/*/*.c tests/*/*.c tests/preload/differential/*.c)
TIDY_FLAGS = -std=gnu11 -Isrc -Itests/unit -DSOCKFUSE_VERSION='"$(VERSION)"' $(HAS_CURSES) \
             $(if $(REDIS),-DSOCKFUSE_HIREDIS) $(if $(TLS),-DSOCKFUSE_TLS) \
             $(if $(HTTPD),-DSOCKFUSE_HTTPD)
TIDY_RULES := .clang-tidy $(wildcard */.clang-tidy src/*/.clang-tidy)
# clang's analyzer follows each way through a function. That takes eight times as long when it looks into all that is
# called as well, and the few findings more have been none yet: see lint-deep.
SHALLOW := -Xclang -analyzer-config -Xclang mode=shallow

tidy: $(patsubst %.c,$(BUILD)/lint/%.tidy,$(LOOKED_AT))
tidy-deep: $(patsubst %.c,$(BUILD)/lint/%.deep,$(filter src/%,$(LOOKED_AT)))
$(BUILD)/lint/%.tidy: ANALYSIS = $(SHALLOW)
$(BUILD)/lint/%.tidy $(BUILD)/lint/%.deep: %.c $(TIDY_RULES)
	@mkdir -p $(@D)
	$(call Q,TIDY) clang-tidy --quiet $< -- $(TIDY_FLAGS) $(ANALYSIS) >$@.said 2>&1 || { cat $@.said >&2; exit 1; }
	@$(CC) $(TIDY_FLAGS) -MM -MP -MT $@ -MF $@.d $< && touch $@

# --- install ---------------------------------------------------------------------------------------------------------

# What goes by the names of `sockfuse metrics`: alerts for Prometheus, and a dashboard for Grafana.
METRICS := $(wildcard src/metrics/*.json src/metrics/*.yml)
# Ready commands for a policy's `alert`.
ALERTS := $(wildcard src/alerts/alert-*)
# A manual page's section is how its name ends.
MAN_PAGES := $(wildcard src/man/*.[1-8])
section = $(patsubst .%,%,$(suffix $(1)))
INSTALLED_PAGES = $(foreach page,$(MAN_PAGES),'$(DESTDIR)$(MANDIR)/man$(call section,$(page))/$(notdir $(page))')

# $(call put,MODE,FILE,PLACE): under a new name first, and then by one rename. Programs that have the old file mapped
# keep it as it was, and whoever starts meanwhile finds the old one or the new one, whole.
put = install -m $(1) $(2) '$(3).new' && mv -fT '$(3).new' '$(3)'
# $(call put_each,FILES,FOLDER): the same for files that are only read
put_each = install -d '$(2)' && for file in $(1); do \
    install -m 644 "$$file" '$(2)'/"$${file\#\#*/}.new" && \
    mv -fT '$(2)'/"$${file\#\#*/}.new" '$(2)'/"$${file\#\#*/}" || exit 1; done

# The library before the command that starts programs under it.
install: all ## install under PREFIX (default /usr/local), below DESTDIR
	install -d '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(LIBDIR)' '$(DESTDIR)$(COMPDIR)'
	$(call put,644,$(LIBRARY),$(DESTDIR)$(LIBDIR)/libsockfuse.so)
	$(foreach kind,32 musl,[ ! -e $(BUILD)/$(kind)/libsockfuse.so ] || { install -d '$(DESTDIR)$(LIBDIR)/$(kind)' && \
	    $(call put,644,$(BUILD)/$(kind)/libsockfuse.so,$(DESTDIR)$(LIBDIR)/$(kind)/libsockfuse.so); } &&) :
	[ ! -e $(DAEMON) ] || { install -d '$(DESTDIR)$(LIBEXECDIR)' && \
	    $(call put,755,$(DAEMON),$(DESTDIR)$(LIBEXECDIR)/sockfuse-agent) && \
	    install -d '$(DESTDIR)$(UNITDIR)' '$(DESTDIR)$(USERUNITDIR)' && \
	    $(call put,644,$(PLACED)/systemd/system.service,$(DESTDIR)$(UNITDIR)/sockfuse-agent.service) && \
	    $(call put,644,$(PLACED)/systemd/user.service,$(DESTDIR)$(USERUNITDIR)/sockfuse-agent.service); }
	install -d '$(DESTDIR)$(LIBEXECDIR)'
	$(foreach script,$(ALERTS),$(call put,755,$(script),$(DESTDIR)$(LIBEXECDIR)/$(notdir $(script))) &&) :
	$(call put,755,$(COMMAND),$(DESTDIR)$(BINDIR)/sockfuse)
	[ ! -e $(PAGE) ] || { install -d '$(DESTDIR)$(DATADIR)' && \
	    $(call put,644,$(PAGE),$(DESTDIR)$(DATADIR)/report.html); }
	$(call put_each,policies/*.policy,$(DESTDIR)$(DATADIR)/policies)
	$(call put_each,$(METRICS),$(DESTDIR)$(DATADIR)/metrics)
	$(foreach number,$(sort $(call section,$(MAN_PAGES))),$(call put_each,src/man/*.$(number),$(DESTDIR)$(MANDIR)/man$(number)) &&) :
	$(call put,644,src/completion/sockfuse.bash,$(DESTDIR)$(COMPDIR)/sockfuse)

# Running programs keep the library that they have mapped; but every program that starts would say that it is missing.
uninstall: ## remove what install put there
	@! grep -qsF '$(LIBDIR)/libsockfuse.so' '$(DESTDIR)/etc/ld.so.preload' || \
	    { echo '$(DESTDIR)/etc/ld.so.preload names the library: take it out of there first' >&2; exit 1; }
	rm -f '$(DESTDIR)$(BINDIR)/sockfuse' '$(DESTDIR)$(LIBEXECDIR)/sockfuse-agent' \
	    '$(DESTDIR)$(UNITDIR)/sockfuse-agent.service' '$(DESTDIR)$(USERUNITDIR)/sockfuse-agent.service' \
	    '$(DESTDIR)$(LIBDIR)/libsockfuse.so' '$(DESTDIR)$(LIBDIR)/32/libsockfuse.so' \
	    '$(DESTDIR)$(LIBDIR)/musl/libsockfuse.so'
	rm -f $(patsubst policies/%,'$(DESTDIR)$(DATADIR)/policies/%',$(wildcard policies/*.policy))
	rm -f $(patsubst src/%,'$(DESTDIR)$(DATADIR)/%',$(METRICS))
	rm -f $(patsubst src/alerts/%,'$(DESTDIR)$(LIBEXECDIR)/%',$(ALERTS))
	rm -f $(INSTALLED_PAGES) '$(DESTDIR)$(COMPDIR)/sockfuse' '$(DESTDIR)$(DATADIR)/report.html'
	rmdir '$(DESTDIR)$(LIBDIR)/32' '$(DESTDIR)$(LIBDIR)/musl' 2>/dev/null || :
	-rmdir '$(DESTDIR)$(LIBDIR)' '$(DESTDIR)$(LIBEXECDIR)' '$(DESTDIR)$(DATADIR)/policies' '$(DESTDIR)$(DATADIR)/metrics' '$(DESTDIR)$(DATADIR)'

clean: ## remove what was built
	rm -rf $(BUILD)

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | \
	    while IFS="$$(printf '\t')" read -r target text; do printf '  make %-17s %s\n' "$$target" "$$text"; done

always:
.PHONY: all lib32 musl arm64 test-arm64 page deb test-deb fresh suites lint lint-deep tidy tidy-deep unit-programs preload-programs bench-programs \
        fuzz-programs threaded-programs test-programs demo cascade test test-unit test-preload test-e2e matrix \
        check-sanitizers coverage fuzz bench install uninstall clean help always
.DELETE_ON_ERROR:
.SECONDARY:

-include $(shell find $(BUILD)/src $(BUILD)/tests $(BUILD)/fuzz $(BUILD)/lint -name '*.d' 2>/dev/null)
