# Completion for bash: commands, options, policy files, keys of -o; behind `run`'s own words, CMD as a command line of
# its own. What there is to complete is asked of sockfuse itself.

_sockfuse_commands() {
    "$1" -h 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p'
}

_sockfuse_options() { # COMMAND
    "$1" "$2" -h 2>/dev/null | sed -n 's/^  *\(-[a-z], \)\{0,1\}\(--[a-z]*\).*/\1\2/p' | tr -d ' ' | tr , '\n'
}

_sockfuse_keys() {
    local policy
    policy=$(mktemp) || return
    echo '[a:1]' >"$policy"
    "$1" check -v "$policy" 2>/dev/null | sed -n '/^match /d; s/^\([a-z_]*\) *= .*/\1=/p'
    rm -f "$policy"
}

# Destinations and targets in use that begin with what stands on the line. Programs name them, so only what the shell
# takes for plain text is offered. bash takes a destination apart at its colons: behind one only the rest is replaced.
_sockfuse_destinations() { # SOCKFUSE WORD
    local name before=
    if [[ ${COMP_WORDS[COMP_CWORD]} == : ]]; then
        before=${COMP_WORDS[COMP_CWORD - 1]}:
    elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == : ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}:
    fi
    while IFS= read -r name; do
        [[ $name =~ ^[][A-Za-z0-9_./:@-]+$ && $name == "$before$2"* ]] && COMPREPLY+=("${name#"$before"}")
    done < <("$1" status --json 2>/dev/null | sed -n 's/^ *"\(target\|destination\)": "\(.*\)",$/\2/p' | sort -u)
}

# Prints the place of CMD's first word on the line of `run`, `observe` or `audit`; fails while the words are still their own.
_sockfuse_place_of_cmd() {
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) echo $((i + 1)) && return ;;
        -p | -t | -o | --policy | --target | --option | --log | --output | --suggest | --user | --limit | --faults) ((i++)) ;;
        -* | = | :) ;;
        *) [[ ${COMP_WORDS[i - 1]} == [=:] || ${COMP_WORDS[i + 1]-} == [=:] ]] || { echo "$i" && return; } ;;
        esac
    done
    return 1
}

_sockfuse() {
    local sockfuse=$1 word=$2 before=$3 command=${COMP_WORDS[1]} place words=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        words="$(_sockfuse_commands "$sockfuse") help --help --version"
    elif [[ $command =~ ^(run|observe|audit)$ ]] && place=$(_sockfuse_place_of_cmd); then
        declare -F _command_offset >/dev/null && _command_offset "$place" && return
        mapfile -t COMPREPLY < <(compgen "$( ((COMP_CWORD == place)) && echo -c || echo -f)" -- "$word" | sort -u)
        return
    elif [[ $command == help ]]; then
        words=$(_sockfuse_commands "$sockfuse")
    elif [[ $command == run && ($before == -o || $before == --option) ]]; then
        words=$(_sockfuse_keys "$sockfuse")
        compopt -o nospace 2>/dev/null
    elif [[ $command == run && $before == --engine ]]; then
        words='auto preload notify'
    elif [[ $command == audit && $before == --faults ]]; then
        words='hang silence refuse reset early-close http-503'
    elif [[ $command == metrics && $before == --format ]]; then
        words='openmetrics prometheus'
    elif [[ $before == --for || ($command =~ ^(run|observe|audit)$ && $word != -* &&
        ($before != -* || $before =~ ^(-v|--(force|json|keep|strict|verbose))$)) ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$word" | sort -u)
        return
    elif [[ $command == top && $before == --sort ]]; then
        words=$("$sockfuse" top -h 2>/dev/null | sed -n 's/^ *--sort ORDER *//p' | tr -d , | sed 's/ or / /')
    elif [[ $word == -* ]]; then
        words=$(_sockfuse_options "$sockfuse" "$command")
    elif [[ $command =~ ^(status|calls|top|explain|open|close|auto|forget)$ && $before != -p && $before != --policy ]]; then
        _sockfuse_destinations "$sockfuse" "${word#:}"
        return
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _sockfuse sockfuse
