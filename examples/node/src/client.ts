// A connection to unified-exec: address and token in, clients out.
import { fileURLToPath } from "node:url";
import { readFileSync } from "node:fs";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { ProtoGrpcType as ExecTypes } from "../gen/exec_service.js";
import type { ProtoGrpcType as SessionTypes } from "../gen/session_service.js";
import type { ExecServiceClient } from "../gen/unified_exec/v1/ExecService.js";
import type { SessionServiceClient } from "../gen/unified_exec/v1/SessionService.js";
import type { ExecResult__Output } from "../gen/unified_exec/v1/ExecResult.js";

const definition = loadSync(["unified_exec/v1/exec_service.proto", "unified_exec/v1/session_service.proto"], {
  includeDirs: [fileURLToPath(new URL("../../../../proto", import.meta.url))],
  longs: Number,
  enums: String,
  defaults: true,
  oneofs: true,
});
const types = grpc.loadPackageDefinition(definition) as unknown as ExecTypes & SessionTypes;

export interface Client {
  exec: ExecServiceClient;
  sessions: SessionServiceClient;
}

/** `server` is unix:///path or host:port; the latter needs a token file. */
export function connect(server: string, tokenFile?: string): Client {
  const options: grpc.ClientOptions = {};
  if (tokenFile) {
    const header = `Bearer ${readFileSync(tokenFile, "utf8").trim()}`;
    options.interceptors = [
      (callOptions, next) =>
        new grpc.InterceptingCall(next(callOptions), {
          start(metadata, listener, proceed) {
            metadata.set("authorization", header);
            proceed(metadata, listener);
          },
        }),
    ];
  }
  const { ExecService, SessionService } = types.unified_exec.v1;
  const plain = grpc.credentials.createInsecure();
  return { exec: new ExecService(server, plain, options), sessions: new SessionService(server, plain, options) };
}

/** A unary call as a promise. */
export function call<Request, Response>(
  method: (request: Request, callback: (error: grpc.ServiceError | null, response?: Response) => void) => unknown,
  request: Request,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    method(request, (error, response) => (error ? reject(error) : resolve(response as Response)));
  });
}

/** The result of ExecCommand, ExecToCompletion or WriteStdin: the last item of their streams. */
export async function resultOf(
  stream: AsyncIterable<{ result?: ExecResult__Output | null }>,
): Promise<ExecResult__Output> {
  for await (const message of stream) {
    if (message.result) return message.result;
  }
  throw new Error("the stream ended without a result");
}
