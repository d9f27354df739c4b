"""Keeps a Python REPL alive over unified-exec: types into it, reads it, interrupts, resumes, cleans up."""

import sys
import tempfile
import time

import grpc
from client import Client, reason, result_of
from unified_exec.v1 import command_pb2, exec_service_pb2, output_pb2, process_pb2, session_service_pb2


def read_until(client, session, process, cursor, text):
    """Attaches at a cursor, reads until the text has come, and drops the stream. Returns the bytes read."""
    request = exec_service_pb2.AttachRequest(
        session_id=session, process_id=process, cursor=cursor, flow=output_pb2.FLOW_BLOCK
    )
    stream, seen = client.exec.Attach(request, timeout=20), b""
    for message in stream:
        if message.WhichOneof("item") == "output":
            assert message.output.offset == cursor.offset + len(seen), "no byte lost or sent twice"
            seen += message.output.data
        if text in seen:
            stream.cancel()
            return seen
    raise AssertionError(f"{text!r} did not come; got {seen!r}")


def write(client, session, process, text):
    request = exec_service_pb2.WriteStdinRequest(session_id=session, process_id=process, text=text)
    return result_of(client.exec.WriteStdin(request))


def main():
    client = Client(*sys.argv[1:3])
    session = client.create_session(tempfile.gettempdir())

    command = command_pb2.Command(
        argv=["python3", "-q"], env=[command_pb2.EnvVar(name="PYTHON_BASIC_REPL", value=b"1")]
    )
    start = exec_service_pb2.ExecCommandRequest(session_id=session, command=command, tty=True, yield_time_ms=250)
    process = result_of(client.exec.ExecCommand(start)).process_id
    assert process, "the REPL lives on after the yield time"
    print(f"started: a REPL, process {process}")

    cursor = output_pb2.Cursor(attempt=1, offset=0)
    cursor.offset += len(read_until(client, session, process, cursor, b">>> "))
    print(f"attached: the prompt has come, stream dropped at offset {cursor.offset}")

    write(client, session, process, "6*7\n")
    answer = read_until(client, session, process, cursor, b"42\r\n>>> ")
    assert answer.startswith(b"6*7\r\n"), answer
    cursor.offset += len(answer)
    print(f"resumed: {answer!r}, now at offset {cursor.offset}")

    poll = client.exec.WriteStdin(
        exec_service_pb2.WriteStdinRequest(
            session_id=session, process_id=process, turn_id="turn-1", yield_time_ms=60_000
        )
    )
    interrupt = session_service_pb2.InterruptRequest(session_id=session, turn_id="turn-1")
    while not client.sessions.Interrupt(interrupt).waits_ended:
        time.sleep(0.05)
    result = result_of(poll)
    assert result.wait_end == process_pb2.WAIT_END_INTERRUPTED and result.process_id == process, result
    write(client, session, process, "'still ' + 'here'\n")
    read_until(client, session, process, cursor, b"'still here'")
    print("interrupted: the wait of the turn ended at once, the REPL answers still")

    clean = session_service_pb2.CleanBackgroundTerminalsRequest(session_id=session)
    cleaned = client.sessions.CleanBackgroundTerminals(clean)
    assert [ended.process_id for ended in cleaned.ended] == [process] and not cleaned.survivors, cleaned
    named = {"session_id": session, "process_id": process}
    gone = client.exec.GetProcess(exec_service_pb2.GetProcessRequest(**named)).process
    assert gone.exit.reason == process_pb2.EXIT_REASON_CLEANED, gone
    try:
        client.exec.SignalProcess(exec_service_pb2.SignalProcessRequest(signal="TERM", **named))
        raise AssertionError("a signal to an ended process must fail")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION and reason(error) == "PROCESS_ENDED", error
    client.sessions.CloseSession(session_service_pb2.CloseSessionRequest(session_id=session))
    print("cleaned: the REPL is gone, and a signal is told so: PROCESS_ENDED")


if __name__ == "__main__":
    main()
