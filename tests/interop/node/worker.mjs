// node-redlock in a process of its own. It does what it is told in lines of JSON, as
// tests/interop/crew.py says. The folder with its packages is the first argument.

import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(`${process.argv[2]}/`);
const { Redis } = require("ioredis");
const { default: Redlock, ExecutionError, Lock } = require("redlock");

const LOOK_MS = 5;
const now = () => Number(process.hrtime.bigint()) / 1e9;
const between = ([least, most]) => 1000 * (least + (most - least) * Math.random());

let client;
let redlock;
const holds = new Map();

async function acquire(name, wait, lease) {
  const retryCount = Math.ceil((wait * 1000) / LOOK_MS);
  const settings = { retryCount, retryDelay: LOOK_MS, retryJitter: 1 };
  try {
    return await redlock.acquire([name], Math.round(lease * 1000), settings);
  } catch (failure) {
    if (failure instanceof ExecutionError) return null;
    throw failure;
  }
}

async function release(hold) {
  try {
    await redlock.release(hold, { retryCount: 0 });
    return true;
  } catch (failure) {
    if (failure instanceof ExecutionError) return false;
    throw failure;
  }
}

async function step(script, { keys, who, side }, when) {
  const said = await client.eval(script, keys.length, ...keys, who, side, when.toFixed(6));
  const bar = said.lastIndexOf("|");
  return [said.slice(0, bar), Number(said.slice(bar + 1))];
}

const commands = {
  async open({ server }) {
    if (client) await client.quit();
    holds.clear();
    client = new Redis(server);
    redlock = new Redlock([client]);
    return {};
  },

  async acquire({ name, wait, lease }) {
    const asked = now();
    const hold = await acquire(name, wait, lease);
    const at = now();
    if (hold) holds.set(name, hold);
    return { held: hold !== null, asked, at, fence: 0 };
  },

  async release({ name }) {
    const hold = holds.get(name);
    holds.delete(name);
    const at = now();
    return { at, released: await release(hold) };
  },

  async steal({ name }) {
    const foreign = new Lock(redlock, [name], randomBytes(16).toString("hex"), [], 0);
    return { refused: (await release(foreign)) ? "" : "no quorum" };
  },

  async loop(what) {
    const { who, name, wait, lease } = what;
    const turns = [];
    const trouble = [];
    const end = now() + what.seconds;
    let handed = 0;
    let found;
    while (handed < what.target && now() < end) {
      const asked = now();
      const hold = await acquire(name, wait, lease);
      const held = now();
      if (!hold) {
        trouble.push(`${who} waited in vain for ${(held - asked).toFixed(3)} s`);
        continue;
      }
      [found, handed] = await step(what.enter, what, asked);
      if (found) trouble.push(`${who} came in while ${found} was inside`);
      await sleep(between(what.inside));
      const left = now();
      [found] = await step(what.leave, what, left);
      if (found) trouble.push(`${who} was inside and found ${found}`);
      if (!(await release(hold))) trouble.push(`${who} could not release what it held`);
      turns.push([asked, held, left]);
      await sleep(between(what.pause));
    }
    return { turns, trouble, handed };
  },
};

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
const told = createInterface({ input: process.stdin });
// Nobody there any more is the end, whatever is being done.
told.on("close", () => process.exit(0));
told.on("line", async (line) => {
  const what = JSON.parse(line);
  try {
    say(await commands[what.do](what));
  } catch (failure) {
    say({ error: String(failure) });
  }
});
say({ ready: "redlock" });
