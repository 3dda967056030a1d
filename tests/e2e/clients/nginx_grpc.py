"""nginx_grpc.py SERVER COUNT: nginx in front of a gRPC SERVER (host:port), asked COUNT times; prints its statuses."""
import socket
import subprocess
import sys
import tempfile

from front import ask, end_with_parent

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
            grpc_pass grpc://backend;
            grpc_read_timeout 2s;
            grpc_next_upstream off;
        }}
    }}
}}
"""

with tempfile.TemporaryDirectory(prefix="sf-") as place:
    with open(f"{place}/conf", "w", encoding="ascii") as file:
        file.write(CONFIGURATION.format(folder=place, server=sys.argv[1]))
    with subprocess.Popen(["nginx", "-e", f"{place}/log", "-c", f"{place}/conf"], preexec_fn=end_with_parent) as nginx:
        try:
            statuses = [ask(socket.AF_UNIX, f"{place}/listen", nginx)[0] for _ in range(int(sys.argv[2]))]
        finally:
            nginx.terminate()
print(*statuses)
