"""A gRPC client that makes calls on command: one JSON object a line, {"count", "timeout", "at_once", "stream", "patient"}.

All calls go over one channel; a patient one waits for it (wait_for_ready). The answer is the list of the statuses' names.
"""
import json
import sys

import grpc

channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1),
                                                      ("grpc.initial_reconnect_backoff_ms", 100),
                                                      ("grpc.max_reconnect_backoff_ms", 100)])
unary = channel.unary_unary("/test.Test/Unary")
stream = channel.unary_stream("/test.Test/Stream")


def outcome(call):
    try:
        call.result()
        return "OK"
    except grpc.RpcError as error:
        return error.code().name


def read(call):
    try:
        return [len(message) for message in call] and "OK" or "EMPTY"
    except grpc.RpcError as error:
        return error.code().name


for line in sys.stdin:
    command = json.loads(line)
    count = command.get("count", 1)
    how = {"timeout": command.get("timeout", 20), "wait_for_ready": command.get("patient", False)}
    if command.get("stream"):
        said = [read(stream(b"question", **how)) for _ in range(count)]
    elif command.get("at_once"):
        said = [outcome(call) for call in [unary.future(b"question", **how) for _ in range(count)]]
    else:
        said = [outcome(unary.future(b"question", **how)) for _ in range(count)]
    print(json.dumps(said), flush=True)
