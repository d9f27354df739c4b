"""Plays a model that calls the two tools: the schemas allow what it sends, the adapter gives back text."""

import json
import re
import sys
import tempfile
from pathlib import Path

from adapter import call_tool
from client import Client

SCHEMAS = {name: json.loads((Path(__file__).parent / f"{name}.json").read_text()) for name in ("exec_command", "write_stdin")}


def main():
    client = Client(*sys.argv[1:3])
    session = client.create_session(tempfile.gettempdir())

    def call(name, **arguments):
        schema = SCHEMAS[name]["parameters"]
        assert set(schema["required"]) <= arguments.keys() <= schema["properties"].keys()
        text = call_tool(client, session, name, arguments)
        print(f"--- {name} {json.dumps(arguments)}\n{text}")
        return text

    text = call("exec_command", cmd="pwd; exit 3", workdir="/usr", login=False)
    assert re.search(r"^Chunk ID: [0-9a-f]{6}$", text, re.M) and re.search(r"^Wall time: \d+\.\d{4} seconds$", text, re.M)
    assert "Process exited with code 3\n" in text and text.endswith("Output:\n/usr\n"), text

    text = call("exec_command", cmd="seq 1 10000", max_output_tokens=20)
    assert "Original token count: 12224\n" in text and "tokens truncated" in text and len(text) < 400, text

    text = call("exec_command", cmd="read -p 'Name: ' name; echo \"hello $name\"", tty=True, login=False, yield_time_ms=500)
    running = re.search(r"^Process running with session ID (\d+)$", text, re.M)
    assert running and text.endswith("Name: "), text
    text = call("write_stdin", session_id=int(running[1]), chars="Ada\n", yield_time_ms=5000)
    assert "Process exited with code 0\n" in text and "hello Ada" in text, text

    text = call("exec_command", cmd="sleep 1; echo done", login=False, yield_time_ms=250)
    running = re.search(r"^Process running with session ID (\d+)$", text, re.M)
    assert running, text
    text = call("write_stdin", session_id=int(running[1]))
    assert "Process exited with code 0\n" in text and text.endswith("done\n"), text


if __name__ == "__main__":
    main()
