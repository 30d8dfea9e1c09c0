// What the checks of pages share: a browser whose errors fail the test, and axe-core.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

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
    const context = await browser.newContext(options);
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

/** Checks that axe-core has no serious finding. It runs in a world of its own: the policy of the pages forbids its script. */
export async function accessible(page, name) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const world = { frameId: frameTree.frame.id, worldName: "axe" };
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", world);
  const evaluate = async (expression) => {
    const options = { contextId, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await session.send("Runtime.evaluate", { expression, ...options });
    check(!exceptionDetails, `${name}: ${JSON.stringify(exceptionDetails)}`);
    return result.value;
  };
  await evaluate(`${axe}; true`);
  const serious = await evaluate(`axe.run().then(({ violations }) => violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => [id, nodes[0].html]))`);
  await session.detach();
  check(serious.length === 0, `${name}: ${JSON.stringify(serious)}`);
}

/** Checks that the policy of the pages forbids scripts that are not files of the server. */
export async function refusesScripts(page, errors) {
  check(errors.length === 0, errors.join("; "));
  const hasRun = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "globalThis.hasRun = true";
    document.head.append(script);
    return globalThis.hasRun === true;
  });
  check(!hasRun, "a script of another origin has run");
  check(errors.length === 1 && errors[0].includes("Content Security Policy"), errors.join("; "));
  errors.length = 0;
}

/** Checks that nothing is wider than the window. */
export async function fits(page, name) {
  const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(width <= 0, `${name} is ${width} pixels too wide`);
}
