"""What differs from the table, each with its reason."""
from .programs import INSIDE, PROGRAMS, UNIX
from .scenarios import INSIDE_TLS

NO_BLACK_HOLE = "a full queue of an AF_UNIX listener blocks or answers EAGAIN; no SYN is lost"
NO_LINGER = "AF_UNIX resets only over unread bytes: at the accept it is an end of stream or a broken pipe, by chance"
NO_ERROR = "prints what came and ends with status 0, also when nothing came"
TLS_INSIDE = "its TLS is inside of it: what its answers say is not seen"
TICKETS_LOST = "its TLS is inside of it, and a reset may take a ticket away, without which the other may be an answer"
KILLED = "killed by a signal: no code of its own runs that could say so, and its call counts neither way"
STDIO = "reads by stdio, unseen: an answer is one, whatever its status"
STDIO_HANGS = "reads by stdio, and is judged when it ends; half an answer keeps it for ever"
STATIC = "a static program is beyond a preload; run says so, and nothing is counted"

# Cells that make no sense.
LEFT_OUT = {(entry.name, "black_hole"): NO_BLACK_HOLE for entry in PROGRAMS if entry.family == UNIX}
LEFT_OUT.update({(entry.name, "reset_at_accept"): NO_LINGER for entry in PROGRAMS if entry.family == UNIX})
LEFT_OUT.update({("busybox_wget", scenario): STDIO_HANGS for scenario in ("half", "half_503")})

# Cells that cannot be right: what the circuit shows instead is the documented limit, and that is what is tested.
CANNOT = {(entry.name, scenario): TLS_INSIDE for entry in PROGRAMS if entry.tls == INSIDE
          for scenario in INSIDE_TLS}
CANNOT.update({("killed_curl", scenario): KILLED for scenario in ("black_hole", "silent")})
CANNOT["busybox_wget", "503"] = STDIO
CANNOT.update({("static", scenario): STATIC for scenario in ("refused", "silent", "reset", "end", "503")})

# Cells that may be so, or as where nothing is wrong.
EITHER = {(entry.name, "tls_reset"): TICKETS_LOST for entry in PROGRAMS if entry.tls == INSIDE}

# Programs that end well where others fail.
ENDS_WELL = {(name, scenario): NO_ERROR for name in ("nc", "nc_unix")
             for scenario in ("silent", "end", "reset", "half", "half_503")}
ENDS_WELL.update({place: NO_ERROR for place in (("gnutls_cli", "tls_end"), ("php_stream", "half"),
                                                ("php_stream", "tls_half"))})
ENDS_WELL.update({("git", scenario): "its second request asks for HEAD, which need not be there"
                  for scenario in ("kept_refused", "tls_kept_refused")})

# A call that is aborted makes it open a connection in reserve at once. Until this server has answered once, that one
# may be waiting for a greeting, and on a busy machine it waits for so long that it counts.
IN_RESERVE = {("node_fetch", scenario): {"response-timeout"} for scenario in (
    "silent", "half", "half_503", "tls_silent", "tls_half", "tls_handshake_silent")}

# What these say of a refusal that connect itself returns (ours, or one on AF_UNIX). The peer's comes later over TCP
# and without blocking, by SO_ERROR, and then they say which address it was, or less.
AT_ONCE = {"python_asyncio": "ConnectionRefusedError: [Errno 111] Connection refused\n",
           "python_aiohttp": "ClientConnectorError: Cannot connect to host 127.0.0.1:PLACE ssl:default "
                             "[Connection refused]\n",
           "tcl": "couldn't open socket: connection refused\n",
           "java_httpclient": "java.net.ConnectException: Connection refused\n",
           "nginx": "502\nconnect() to 127.0.0.1:PLACE failed (111: Connection refused) while connecting to upstream, "
                    "client: unix:, server: , request: \"GET / HTTP/1.0\", upstream: \"http://127.0.0.1:PLACE/\"\n"}
