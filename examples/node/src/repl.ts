// Keeps a Python REPL alive over unified-exec: types into it, reads it, interrupts, resumes, cleans up.
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { status, type ServiceError } from "@grpc/grpc-js";
import { call, connect, resultOf } from "./client.js";

const server = process.argv[2] ?? process.env.UEXEC_SERVER;
assert(server, "usage: repl.js SERVER [TOKEN_FILE], or UEXEC_SERVER and UEXEC_TOKEN_FILE");
const { exec, sessions } = connect(server, process.argv[3] ?? process.env.UEXEC_TOKEN_FILE);

const created = await call(sessions.createSession.bind(sessions), {
  config: {
    cwd: tmpdir(),
    approvalPolicy: { mode: "APPROVAL_MODE_NEVER" },
    sandbox: { kind: "SANDBOX_KIND_FULL_ACCESS", network: { mode: "NETWORK_MODE_ON" } },
  },
});
const sessionId = created.session!.sessionId;

const started = await resultOf(
  exec.execCommand({
    sessionId,
    command: { argv: ["python3", "-q"], env: [{ name: "PYTHON_BASIC_REPL", value: Buffer.from("1") }] },
    tty: true,
    yieldTimeMs: 250,
  }),
);
const processId = started.processId;
assert(processId, "the REPL lives on after the yield time");
console.log(`started: a REPL, process ${processId}`);

/** Attaches at an offset, reads until the text has come, and drops the stream. */
async function readUntil(offset: number, text: string): Promise<string> {
  const stream = exec.attach({ sessionId, processId, cursor: { attempt: 1, offset }, flow: "FLOW_BLOCK" });
  stream.on("error", () => {}); // Dropping it is a cancellation.
  let seen = Buffer.alloc(0);
  for await (const { output } of stream) {
    if (!output) continue;
    assert.equal(output.offset, offset + seen.length, "no byte lost or sent twice");
    seen = Buffer.concat([seen, output.data]);
    if (seen.includes(text)) break;
  }
  stream.cancel();
  assert(seen.includes(text), `${text} did not come; got ${seen}`);
  return seen.toString();
}

const write = (text: string) => resultOf(exec.writeStdin({ sessionId, processId, text }));

let offset = (await readUntil(0, ">>> ")).length;
console.log(`attached: the prompt has come, stream dropped at offset ${offset}`);

await write("6*7\n");
const answer = await readUntil(offset, "42\r\n>>> ");
assert(answer.startsWith("6*7\r\n"), answer);
offset += answer.length;
console.log(`resumed: ${JSON.stringify(answer)}, now at offset ${offset}`);

const poll = resultOf(exec.writeStdin({ sessionId, processId, turnId: "turn-1", yieldTimeMs: 60_000 }));
const interrupt = () => call(sessions.interrupt.bind(sessions), { sessionId, turnId: "turn-1" });
while (!(await interrupt()).waitsEnded) await sleep(50);
const result = await poll;
assert.equal(result.waitEnd, "WAIT_END_INTERRUPTED");
assert.equal(result.processId, processId);
await write("'still ' + 'here'\n");
await readUntil(offset, "'still here'");
console.log("interrupted: the wait of the turn ended at once, the REPL answers still");

const cleaned = await call(sessions.cleanBackgroundTerminals.bind(sessions), { sessionId });
assert.deepEqual(cleaned.ended.map((ended) => ended.processId), [processId]);
assert.equal(cleaned.survivors.length, 0);
const { process: gone } = await call(exec.getProcess.bind(exec), { sessionId, processId });
assert.equal(gone?.exit?.reason, "EXIT_REASON_CLEANED");
const signal = call(exec.signalProcess.bind(exec), { sessionId, processId, signal: "TERM" });
await assert.rejects(signal, (error: ServiceError) => error.code === status.FAILED_PRECONDITION);
await call(sessions.closeSession.bind(sessions), { sessionId });
console.log("cleaned: the REPL is gone, and a signal is told so");
exec.close();
sessions.close();
