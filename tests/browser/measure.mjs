// One measurement of the panel in a real Chromium: `node measure.mjs NAME LINK CHROMIUM [NUMBER]`.
//
// It says `ready` where the bench has to do something, and ends with one line of JSON: numbers by name, in ms.

import { createRequire } from 'node:module';

const require = createRequire(`${process.cwd()}/`);
const { chromium } = require('playwright-core');
const [name, link, executablePath, number] = process.argv.slice(2);
const LIMIT = 60_000;

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
const say = (/** @type {string} */ word) => process.stdout.write(`${word}\n`);
const { origin } = new URL(link);

/** A page that has exchanged the link. */
async function first() {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(LIMIT);
  await page.goto(link);
  await page.locator('panel-row').first().waitFor();
  return page;
}

/** A new tab with the session of another one, before it has loaded anything. */
async function again(page) {
  const session = await page.evaluate(() => sessionStorage.getItem('session'));
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.addInitScript((value) => sessionStorage.setItem('session', value), session);
  const other = await context.newPage();
  other.setDefaultTimeout(LIMIT);
  return other;
}

/** The difference between the monotonic clock and that of the page in ms: the best of many tries. */
async function offset(page) {
  let best = { trip: Infinity, offset: 0 };
  for (let tries = 0; tries < 200; tries += 1) {
    const before = Number(process.hrtime.bigint()) / 1e6;
    const now = await page.evaluate(() => performance.now());
    const after = Number(process.hrtime.bigint()) / 1e6;
    if (after - before < best.trip) best = { trip: after - before, offset: (before + after) / 2 - now };
  }
  return best;
}

const measures = {
  /** From the beginning of a navigation to the first paint with content, and to the first worker. */
  async paint() {
    const page = await first();
    const found = { paint: [], row: [] };
    for (let tries = 0; tries < Number(number); tries += 1) {
      const other = await again(page);
      await other.goto(origin);
      found.row.push(await other.locator('panel-row').first().evaluate(() => performance.now()));
      found.paint.push(await other.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime));
      await other.context().close();
    }
    return found;
  },

  /** From the agent's write of a chunk with its time to the frame in which it is painted. */
  async pixel() {
    const page = await first();
    await page.locator('panel-row a').first().click();
    await page.locator('panel-worker h2').waitFor();
    const clock = await offset(page);
    await page.evaluate(() => {
      const seen = (globalThis.seen = []);
      const items = document.querySelector('panel-worker');
      new MutationObserver(() => {
        const changed = performance.now();
        requestAnimationFrame(() => {
          // A task behind the frame runs when it was painted.
          const { port1, port2 } = new MessageChannel();
          port2.onmessage = () => {
            const text = [...document.querySelectorAll('panel-item.agent')].at(-1)?.textContent || '';
            const stamp = text.slice(text.lastIndexOf('at ')).match(/^at (\d+)/)?.[1];
            if (stamp && seen.at(-1)?.[0] !== stamp) seen.push([stamp, changed, performance.now()]);
          };
          port1.postMessage(null);
        });
      }).observe(items, { subtree: true, childList: true, characterData: true });
    });
    say('ready');
    await page.waitForFunction((count) => globalThis.seen.length >= count, Number(number));
    const seen = await page.evaluate(() => globalThis.seen);
    // What the browser itself needs: a change of the page by its own timer, seen in the same way.
    const own = await page.evaluate((count) => new Promise((resolve) => {
      const mark = document.body.appendChild(document.createElement('p'));
      const found = [];
      const step = () => {
        const begun = performance.now();
        mark.textContent = String(begun);
        requestAnimationFrame(() => {
          const { port1, port2 } = new MessageChannel();
          port2.onmessage = () => {
            found.push(performance.now() - begun);
            if (found.length < count) setTimeout(step, 20 + Math.random() * 40);
            else resolve(found);
          };
          port1.postMessage(null);
        });
      };
      step();
    }), Number(number));
    const since = (/** @type {string} */ stamp, /** @type {number} */ at) => at + clock.offset - Number(BigInt(stamp) / 1000n) / 1000;
    return {
      own, clock: [clock.trip / 2],
      changed: seen.map(([stamp, changed]) => since(stamp, changed)), pixel: seen.map(([stamp, , at]) => since(stamp, at)),
    };
  },

  /** From the click on a worker to the end of its long story on the screen. */
  async transcript() {
    const page = await first();
    const found = { opens: [] };
    for (let tries = 0; tries < Number(number); tries += 1) {
      const other = await again(page);
      await other.goto(origin);
      await other.locator('panel-row a').first().waitFor();
      found.opens.push(await other.evaluate(() => new Promise((resolve) => {
        const begun = performance.now();
        const watch = new MutationObserver(() => {
          if (!document.querySelector('panel-item.turn_end')) return;
          watch.disconnect();
          requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begun)));
        });
        watch.observe(document.body, { subtree: true, childList: true });
        /** @type {HTMLElement} */ (document.querySelector('panel-row a')).click();
      })));
      await other.context().close();
    }
    return found;
  },

  /** Frames per second of an open page while many workers stream, and its memory after a collection, a dozen times. */
  async crowd() {
    const page = await first();
    const inspector = await page.context().newCDPSession(page);
    const heap = [];
    say('ready');
    // All of them stream before anything counts.
    const count = await page.locator('panel-row').count();
    await page.waitForFunction((all) => document.querySelectorAll('panel-row.working').length >= all, count);
    const seconds = Number(number);
    const frames = page.evaluate((seconds) => new Promise((resolve) => {
      let count = 0;
      const begun = performance.now();
      const step = () => {
        count += 1;
        if (performance.now() - begun < seconds * 1000) requestAnimationFrame(step);
        else resolve(count / seconds);
      };
      requestAnimationFrame(step);
    }), seconds);
    for (let at = 0; at < 12; at += 1) {
      await new Promise((resolve) => { setTimeout(resolve, (seconds * 1000) / 13); });
      await inspector.send('HeapProfiler.collectGarbage');
      heap.push((await inspector.send('Runtime.getHeapUsage')).usedSize);
    }
    return { frames: [await frames], heap };
  },
};

const found = await measures[name]();
await browser.close();
say(JSON.stringify(found));
