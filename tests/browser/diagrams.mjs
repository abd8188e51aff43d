// Renders diagrams in a real Chromium: `node diagrams.mjs render FILE CHROMIUM`. The file is a
// JSON list of `{place, text}`.
//
// Prints a line for each diagram that Mermaid does not render, and fails if there is one.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(`${process.cwd()}/`);
const { chromium } = require('playwright-core');
const mermaid = require.resolve('mermaid').replace(/[^/]+$/, 'mermaid.min.js');
const [, file, executablePath] = process.argv.slice(2);
const diagrams = JSON.parse(readFileSync(file, 'utf8'));

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
const page = await browser.newPage();
await page.addScriptTag({ path: mermaid });
let failed = 0;
for (const [number, { place, text }] of diagrams.entries()) {
  const problem = await page.evaluate(async ([id, source]) => {
    try {
      const { svg } = await globalThis.mermaid.render(id, source);
      return svg.includes('<svg') ? '' : 'no picture';
    } catch (error) {
      return String(error);
    }
  }, [`diagram${number}`, text]);
  if (problem) {
    failed += 1;
    process.stdout.write(`${place}: ${problem}\n`);
  }
}
await browser.close();
process.stdout.write(`${diagrams.length - failed} of ${diagrams.length} diagrams rendered\n`);
process.exitCode = failed ? 1 : 0;
