// Runs the original rsmq: JSON lines in, one JSON line {result} or {error, text} out for each.
// {open: {host, port, ns, realtime}} makes a client; its result is the client's number.
// {client, method, options} calls it. {client, method: "quit"} ends it.
"use strict";
const readline = require("readline");
const RedisSMQ = require(process.argv[2]);
const clients = [];

async function result({ open, client, method, options }) {
  if (open) return clients.push(new RedisSMQ(open)) - 1;
  const rsmq = clients[client];
  if (method === "quit") return rsmq.quit();
  return rsmq[method + "Async"](...(options === null ? [] : [options]));
}

async function answer(line) {
  try {
    return { result: await result(JSON.parse(line)) };
  } catch (error) {
    return { error: error.name, text: error.message };
  }
}

const input = readline.createInterface({ input: process.stdin });
input.on("line", async (line) => process.stdout.write(JSON.stringify(await answer(line)) + "\n"));
