"""nginx_get.py SERVER TIMEOUT [COUNT]: nginx in front of SERVER, asked COUNT times; prints its answers.

SERVER is a URL or unix:/path. nginx is the client here: a master and one worker, which under root gives up its rights
as always, TIMEOUT for each step upstream, connections kept. This script asks it over a socket file and makes no
connection but that. Ends with status 0 when all answers were 200; else it prints on stderr what nginx logged.
"""
import os
import re
import socket
import subprocess
import sys
import tempfile

from front import ask, end_with_parent, tell

CONFIGURATION = """
daemon off;
worker_processes 1;
error_log {folder}/log warn;
pid {folder}/pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream backend {{
        server {server};
        keepalive 4;
    }}
    server {{
        listen unix:{folder}/listen;
        location / {{
            proxy_pass {scheme}://backend;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_connect_timeout {timeout}s;
            proxy_send_timeout {timeout}s;
            proxy_read_timeout {timeout}s;
            {tls}
        }}
    }}
}}
"""
# 1.3 is not among nginx's own defaults yet, and there the server's session tickets come before any answer.
TLS = """proxy_ssl_protocols TLSv1.2 TLSv1.3;
            proxy_ssl_verify on;
            proxy_ssl_name localhost;
            proxy_ssl_trusted_certificate {authority};"""


def configuration(folder, server, timeout):
    scheme, _, place = server.rstrip("/").rpartition("://")
    tls = TLS.format(authority=os.environ["SSL_CERT_FILE"]) if scheme == "https" else ""
    return CONFIGURATION.format(folder=folder, server=place, scheme=scheme or "http", timeout=timeout, tls=tls)


def main():
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory(prefix="sf-") as folder:
        with open(f"{folder}/conf", "w", encoding="ascii") as file:
            file.write(configuration(folder, sys.argv[1], sys.argv[2]))
        command = ["nginx", "-e", f"{folder}/log", "-c", f"{folder}/conf"]
        with subprocess.Popen(command, preexec_fn=end_with_parent) as nginx:
            try:
                answers = [ask(socket.AF_UNIX, f"{folder}/listen", nginx) for _ in range(count)]
            finally:
                nginx.terminate()
        with open(f"{folder}/log", encoding="utf-8") as file:
            # Without the time, the process and the number of the connection.
            log = [re.sub(r"\A.*?: \*\d+ ", "", line.rstrip()) for line in file]
    tell(answers, log)


main()
