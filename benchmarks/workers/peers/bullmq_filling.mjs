// BullMQ: fills a queue, or takes jobs without ending them, as its standard input says.
import { createInterface } from "node:readline";
import { randomBytes } from "node:crypto";
import { Queue, Worker } from "bullmq";

const [url, idSize, size] = process.argv.slice(2);
const { hostname, port } = new URL(url);
const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
const prefix = "ackq-benchmark:memory";
const queue = new Queue("q", { connection, prefix });
// Locks that outlive the run; a lock is a key of its own.
const worker = new Worker("q", null, { connection, prefix, autorun: false, lockDuration: 3600e3 });
const hex = (length) => randomBytes(length).toString("hex").slice(0, length);
const room = Number(size) - Buffer.byteLength(JSON.stringify({ id: hex(Number(idSize)), payload: "" }));
let number = 0;

async function fill(count) {
  for (let first = 0; first < count; first += 1000) {
    const jobs = [];
    for (let n = first; n < Math.min(first + 1000, count); n++) {
      const id = (number++).toString(16).padStart(7, "0") + "x" + hex(Number(idSize) - 8);
      jobs.push({ name: "j", data: { id, payload: hex(room) }, opts: { jobId: id } });
    }
    await queue.addBulk(jobs);
  }
}

async function take(count) {
  let taken = 0;
  while (taken < count) {
    const jobs = [];
    for (let n = taken; n < Math.min(taken + 100, count); n++) {
      jobs.push(worker.getNextJob("token", { block: false }));
    }
    const came = (await Promise.all(jobs)).filter((job) => job).length;
    if (came === 0) throw new Error(`${taken} of ${count} jobs came`);
    taken += came;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [what, count] = line.split(" ");
  await (what === "fill" ? fill : take)(Number(count));
  process.stdout.write("done\n");
}
process.exit(0);
