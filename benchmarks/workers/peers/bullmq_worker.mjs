// BullMQ on Node.js: nothing kept of finished jobs.
import { Queue, Worker } from "bullmq";

const [url, messages, sleep, concurrency] = process.argv.slice(2);
const total = Number(messages);
const pause = Number(sleep) * 1000;
const { hostname, port } = new URL(url);
const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue("benchmark", { connection });
const payload = "x".repeat(60);
for (let first = 0; first < total; first += 1000) {
  const jobs = [];
  for (let n = first; n < Math.min(first + 1000, total); n++) {
    jobs.push({ name: "j", data: { n, payload }, opts: { removeOnComplete: true } });
  }
  await queue.addBulk(jobs);
}
let seen = 0;
let begin = 0;
let used = 0;
const cpu = () => (process.cpuUsage().user + process.cpuUsage().system) / 1e6;
async function handle() {
  const number = ++seen;
  if (number === 1) [begin, used] = [performance.now(), cpu()];
  if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
  if (number === total) {
    const seconds = (performance.now() - begin) / 1000;
    process.stdout.write(JSON.stringify({ seconds, cpu: cpu() - used }) + "\n", () => process.exit(0));
  }
}
new Worker("benchmark", handle, { connection, concurrency: Number(concurrency) });
