"""apache_get.py SERVER TIMEOUT [COUNT]: Apache's mod_proxy in front of SERVER, asked COUNT times; prints its answers.

SERVER is a URL. Apache is the client here: a parent and one child, which under root gives up its rights as always,
TIMEOUT for each step upstream, connections kept. This script asks it at a port of 127.0.0.2 that the kernel picked a
moment ago. Ends with status 0 when all answers were 200; else it prints on stderr what Apache logged.

With TLS it is a client of its own kind: what SSL_write makes goes into Apache's buckets, and to the socket later.
"""
import os
import re
import socket
import subprocess
import sys
import tempfile

from front import ask, end_with_parent, tell

HERE = "127.0.0.2"
MODULES = "/usr/lib/apache2/modules"
CONFIGURATION = """
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
Mutex file:{folder} default
DefaultRuntimeDir {folder}
ErrorLog {folder}/log
ErrorLogFormat "%M %E"
Listen {here}:{port}
StartServers 1
ServerLimit 1
ThreadsPerChild 2
MaxRequestWorkers 2
MinSpareThreads 1
MaxSpareThreads 2
ProxyErrorOverride Off
{user}
{tls}
ProxyPass / {server}/ connectiontimeout={timeout} timeout={timeout} retry=0
"""
USER = "User www-data\nGroup www-data"
TLS = """LoadModule socache_shmcb_module {modules}/mod_socache_shmcb.so
LoadModule ssl_module {modules}/mod_ssl.so
SSLProxyEngine on
SSLProxyVerify require
SSLProxyCACertificateFile {authority}
SSLProxyCheckPeerName off"""


def configuration(folder, port, server, timeout):
    tls = TLS.format(modules=MODULES, authority=os.environ["SSL_CERT_FILE"]) if server.startswith("https:") else ""
    return CONFIGURATION.format(modules=MODULES, folder=folder, here=HERE, port=port, server=server.rstrip("/"),
                                timeout=timeout, tls=tls, user=USER if os.geteuid() == 0 else "")


def free_port():
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return probe.getsockname()[1]


def begin_child():
    """Apache ends with its whole process group."""
    os.setpgid(0, 0)
    end_with_parent()


def read_log(path):
    """What it says of the requests, without where they came from; not of its own life."""
    with open(path, encoding="utf-8") as file:
        return [re.sub(r"\[client [^]]*\]", "", line.rstrip()) for line in file
                if not re.match(r"AH0(0489|0094|0491|0493|0292|1876|1882)", line)]


def main():
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory(prefix="sf-") as folder:
        os.chmod(folder, 0o755)
        port = free_port()
        with open(f"{folder}/conf", "w", encoding="ascii") as file:
            file.write(configuration(folder, port, sys.argv[1], sys.argv[2]))
        command = ["apache2", "-D", "FOREGROUND", "-f", f"{folder}/conf"]
        with subprocess.Popen(command, preexec_fn=begin_child) as apache:
            try:
                answers = [ask(socket.AF_INET, (HERE, port), apache) for _ in range(count)]
                # Now: when it is told to end, it says at times what its threads run into.
                log = read_log(f"{folder}/log")
            finally:
                apache.terminate()
    tell(answers, log)


main()
