// Runs the original rsmq: a JSON line {method, options} in, a JSON line {result} or {error} out.
"use strict";
const readline = require("readline");
const [where, host, port, ns, realtime] = process.argv.slice(2);
const RedisSMQ = require(where);
const rsmq = new RedisSMQ({ host, port: Number(port), ns, realtime: realtime === "true" });

async function answer(line) {
  const { method, options } = JSON.parse(line);
  try {
    const args = options === null ? [] : [options];
    return { result: await rsmq[method + "Async"](...args) };
  } catch (error) {
    return { error: error.name, text: error.message };
  }
}

const input = readline.createInterface({ input: process.stdin });
input.on("line", async (line) => process.stdout.write(JSON.stringify(await answer(line)) + "\n"));
input.on("close", () => rsmq.quit());
