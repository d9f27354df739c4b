"""Turns a model's tool call into an RPC, and the result into text for the model."""

from client import result_of
from unified_exec.v1.exec_service_pb2 import ExecCommandRequest, WriteStdinRequest


def call_tool(client, session, name, arguments):
    args = dict(arguments)
    if name == "exec_command":
        names = {"cmd": "cmd", "workdir": "cwd", "shell": "shell", "login": "login"}
        command = {field: args.pop(arg) for arg, field in names.items() if arg in args}
        stream = client.exec.ExecCommand(ExecCommandRequest(session_id=session, command=command, **args))
    else:
        args = {"process_id": args.pop("session_id"), "text": args.pop("chars", ""), **args}
        stream = client.exec.WriteStdin(WriteStdinRequest(session_id=session, **args))
    return result_of(stream).text.text
