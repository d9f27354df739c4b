"""A connection to unified-exec: address and token in, stubs out."""

import os
from pathlib import Path

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from unified_exec.v1 import exec_service_pb2_grpc, policy_pb2, session_pb2, session_service_pb2, session_service_pb2_grpc


class Client:
    """Stubs of one connection. `server` is unix:///path or host:port; the latter needs a token file."""

    def __init__(self, server: str | None = None, token_file: str | None = None):
        server = server or os.environ["UEXEC_SERVER"]
        token_file = token_file or os.environ.get("UEXEC_TOKEN_FILE")
        # For a socket grpcio would name its path as the authority, percent-encoded, which no HTTP library in Rust accepts.
        options = [("grpc.default_authority", "localhost")] if server.startswith("unix:") else []
        self.channel = grpc.insecure_channel(server, options)
        if token_file:
            token = Path(token_file).read_text().strip()
            self.channel = grpc.intercept_channel(self.channel, Bearer(token))
        self.exec = exec_service_pb2_grpc.ExecServiceStub(self.channel)
        self.sessions = session_service_pb2_grpc.SessionServiceStub(self.channel)

    def create_session(self, cwd: str) -> str:
        """A session that asks nobody and sandboxes nothing."""
        config = session_pb2.SessionConfig(
            cwd=cwd,
            approval_policy=policy_pb2.ApprovalPolicy(mode=policy_pb2.APPROVAL_MODE_NEVER),
            sandbox=policy_pb2.SandboxProfile(
                kind=policy_pb2.SANDBOX_KIND_FULL_ACCESS,
                network=policy_pb2.NetworkPolicy(mode=policy_pb2.NETWORK_MODE_ON),
            ),
        )
        request = session_service_pb2.CreateSessionRequest(config=config)
        return self.sessions.CreateSession(request).session.session_id


class Bearer(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Sends the token with every call."""

    def __init__(self, token: str):
        self.header = ("authorization", f"Bearer {token}")

    def _intercept(self, proceed, details, request):
        return proceed(details._replace(metadata=[*(details.metadata or ()), self.header]), request)

    intercept_unary_unary = intercept_unary_stream = _intercept
    intercept_stream_unary = intercept_stream_stream = _intercept


def result_of(stream):
    """The result of ExecCommand, ExecToCompletion or WriteStdin: the last item of their streams."""
    for message in stream:
        if message.WhichOneof("item") == "result":
            return message.result
    raise RuntimeError("the stream ended without a result")


def reason(error: grpc.RpcError) -> str:
    """The machine-readable reason of an error, such as PROCESS_ENDED."""
    for detail in rpc_status.from_call(error).details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return info.reason
    return ""
