// What the checks of pages share: a browser whose errors fail the test, and axe-core.
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

export function check(condition, text) {
  if (!condition) throw new Error(text);
}

/** Runs a check with a function that opens tabs; prints "PASSED" or "FAILED" with the reason. */
export async function run(use) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
  const errors = [];
  /** A tab whose errors fail the test. */
  const open = async (options) => {
    // The policy of the pages forbids the script of axe.
    const context = await browser.newContext({ bypassCSP: true, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("dialog", (dialog) => dialog.accept());
    return page;
  };
  try {
    await use(open, errors);
    check(errors.length === 0, `the console has errors: ${errors.join("; ")}`);
    console.log("PASSED");
  } catch (error) {
    console.log(`FAILED ${error.stack}; ${errors.join("; ")}`);
    process.exitCode = 1;
  } finally {
    await browser.close();
  }
}

/** Checks that axe-core has no serious finding. */
export async function accessible(page, name) {
  await page.addScriptTag({ path: axe });
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  check(serious.length === 0, `${name}: ${JSON.stringify(serious.map(({ id, nodes }) => [id, nodes[0].html]))}`);
}

/** Checks that nothing is wider than the window. */
export async function fits(page, name) {
  const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(width <= 0, `${name} is ${width} pixels too wide`);
}
