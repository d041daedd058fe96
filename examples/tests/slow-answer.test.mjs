// With Node's own test runner (node --test): an answer that takes 6 s survives a path that forgets after 3 s.
// `stillopen lab exec` runs the client; what the path did is in its summary.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const STILLOPEN = process.env.STILLOPEN ?? "stillopen";

// The client under test, a program of its own. Yours would be your command.
const client = (keepAlive) => `
  const http = require("node:http");
  const agent = new http.Agent({ keepAlive: ${keepAlive}, keepAliveMsecs: 1000 });
  const request = http.get("http://" + process.env.STILLOPEN_SERVER, { agent, timeout: 8000 }, (answer) => {
    answer.resume().on("end", () => process.exit(0));
  });
  request.on("socket", (socket) => socket.setKeepAlive(${keepAlive}, 1000));
  request.on("timeout", () => process.exit(1));
`;

async function behindIpvs(source) {
  const folder = await mkdtemp(join(tmpdir(), "path-"));
  const summary = join(folder, "path.json");
  const options = ["--idle-timeout", "3s", "--answer-after", "6s", "--summary", summary];
  const command = ["lab", "exec", ...options, "--", process.execPath, "-e", source];
  try {
    const status = await new Promise((done) => {
      execFile(STILLOPEN, command, (error) => done(error ? error.code : 0));
    });
    return { status, path: JSON.parse(await readFile(summary, "utf8")) };
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("keepalive gets the answer", async () => {
  const { status, path } = await behindIpvs(client(true));
  assert.equal(status, 0);
  assert.deepEqual(path.forgotten, []);
});

test("without it the answer is lost", async () => {
  const { status, path } = await behindIpvs(client(false));
  assert.equal(status, 1);
  assert.equal(path.answers_lost, 1);
});
