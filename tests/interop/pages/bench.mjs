// Uses the benchmark page: node bench.mjs URL DIRECTORY
// Prints "PASSED" at the end. Screenshots and exports go to DIRECTORY.
import { accessible, check, fits, refusesScripts, run } from "./common.mjs";

const [url, directory] = process.argv.slice(2);

await run(async (open, errors) => {
  const desktop = { viewport: { width: 1280, height: 900 } };

  // Without a token, the page asks for one. The refused request is the only error of the console.
  const stranger = await open({ ...desktop, colorScheme: "light" });
  await stranger.goto(url.split("#")[0]);
  await stranger.getByText("Token needed").waitFor();
  await accessible(stranger, "token");
  await stranger.getByLabel("Token").fill("0".repeat(64));
  await stranger.getByRole("button", { name: "Use token" }).click();
  await stranger.getByRole("alert").getByText("the token is missing or wrong").waitFor();
  await stranger.context().close();
  check(errors.every((text) => text.includes("401")), errors.join("; "));
  errors.length = 0;

  const page = await open({ ...desktop, colorScheme: "light" });
  await page.goto(url);
  await page.getByText("No benchmark is running.").waitFor();
  await refusesScripts(page, errors);
  await accessible(page, "inputs");

  // Inputs that cannot be used together are refused beside the form; the refused request is an error of the console.
  await page.locator("[name=delay_ms]").fill("5");
  await page.getByRole("button", { name: "Start" }).press("Enter");
  await page.getByRole("alert").getByText("transport: udp").waitFor();
  check(errors.every((text) => text.includes("400")), errors.join("; "));
  errors.length = 0;
  await page.locator("[name=delay_ms]").fill("0");

  // Two trials in both directions: live figures, then the statistics.
  await page.locator("[name=traffic]").selectOption("both");
  await page.locator("[name=duration_s]").fill("2");
  await page.locator("[name=trials]").fill("2");
  await page.getByRole("button", { name: "Start" }).click();
  const tile = (name) => page.locator(".tile", { hasText: name }).locator("dd").first();
  await tile("Goodput B → A").waitFor();
  check(/^[1-9].*bit\/s$/.test(await tile("Goodput A → B").textContent()), "goodput");
  check(/^[\d.]+, [\d.]+, [\d.]+$/.test(await tile("CPU of A, F, B").textContent()), "CPU time");
  await page.screenshot({ path: `${directory}/bench-run-light.png`, fullPage: true });
  await page.getByText("Benchmark 1 is done").waitFor();
  const trials = page.getByRole("region", { name: "Trials", exact: true }).locator("tbody tr");
  check((await trials.count()) === 4, "two directions of two trials");
  const statistics = page.getByRole("region", { name: "Statistics of the trials" });
  check((await statistics.locator("tr", { hasText: "Goodput" }).textContent()).includes("±"), "a confidence interval");
  await accessible(page, "run");
  await page.screenshot({ path: `${directory}/bench-done-light.png`, fullPage: true });

  // Another one over UDP with a link, stopped early: it keeps its trial.
  await page.locator("[name=transport]").selectOption("udp");
  await page.locator("[name=delay_ms]").fill("2");
  await page.locator("[name=peers]").selectOption("all");
  await page.locator("[name=duration_s]").fill("1");
  await page.locator("[name=trials]").fill("50");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("Benchmark 2, trial 2").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Benchmark 2 is stopped").waitFor();

  // A set of files, fetched by namewire get, which measures no latency.
  await page.locator("[name=peers]").selectOption("none");
  await page.locator("[name=delay_ms]").fill("0");
  await page.locator("[name=transport]").selectOption("unix");
  await page.locator("[name=traffic]").selectOption("a_to_b");
  await page.locator("[name=producer]").selectOption("files");
  await page.locator("[name=consumer]").selectOption("get");
  await page.locator("[name=file_mib]").fill("16");
  await page.locator("[name=file_count]").fill("4");
  await page.locator("[name=trials]").fill("1");
  await page.locator("[name=duration_s]").fill("2");
  await page.getByRole("button", { name: "Start" }).click();
  await tile("Latency A → B").filter({ hasText: /^–$/ }).waitFor();
  check(/^[1-9].*bit\/s$/.test(await tile("Goodput A → B").textContent()), "goodput of get");
  await page.getByText("Benchmark 3 is done").waitFor();

  // The history leads to a benchmark, its picture and its exports.
  await page.getByRole("link", { name: "History" }).click();
  await page.getByLabel("Compare benchmark 1").waitFor();
  await accessible(page, "history");
  await page.screenshot({ path: `${directory}/bench-history-light.png`, fullPage: true });
  await page.getByRole("link", { name: "1", exact: true }).click();
  await page.getByRole("heading", { name: "Benchmark 1" }).waitFor();
  await page.locator("figure svg rect title").first().waitFor({ state: "attached" });
  await accessible(page, "benchmark");
  await page.screenshot({ path: `${directory}/bench-one-light.png`, fullPage: true });
  for (const ending of ["csv", "json", "svg", "html"]) {
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: `Save as ${ending.toUpperCase()}` }).click();
    await (await download).saveAs(`${directory}/bench.${ending}`);
  }

  // A link to a benchmark survives a reload.
  await page.reload();
  await page.getByRole("heading", { name: "Benchmark 1" }).waitFor();

  // Two compared.
  await page.getByRole("link", { name: "History" }).click();
  await page.getByLabel("Compare benchmark 1").check();
  await page.getByRole("button", { name: "Compare two" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Compare benchmark 2").check();
  await page.getByRole("button", { name: "Compare two" }).click();
  await page.getByRole("heading", { name: "Benchmarks 1 and 2" }).waitFor();
  await page.getByRole("region", { name: "Inputs that differ" }).getByText("udp").waitFor();
  await accessible(page, "comparison");
  await page.screenshot({ path: `${directory}/bench-compare-light.png`, fullPage: true });

  // Other programs have rows of their own, or a reason.
  await page.goto(`${url.split("#")[0]}#/run/2`);
  await page.getByRole("heading", { name: "Benchmark 2" }).waitFor();
  await page.locator("main").getByText(/^ndnd/).first().waitFor();
  await page.getByRole("region", { name: "Published elsewhere" }).getByText("NDN-DPDK").first().waitFor();
  await accessible(page, "benchmark with others");
  await page.screenshot({ path: `${directory}/bench-peers-light.png`, fullPage: true });

  // The report opens without the server, and has no request to it.
  const report = await open({ ...desktop, offline: true });
  await report.goto(`file://${directory}/bench.html`);
  await report.getByRole("heading", { name: /Benchmark 1/ }).waitFor();
  await accessible(report, "report");
  await report.screenshot({ path: `${directory}/bench-report.png`, fullPage: true });
  await report.context().close();

  // Dark, and at the width of a phone.
  for (const [name, options] of [
    ["dark", { ...desktop, colorScheme: "dark" }],
    ["phone", { viewport: { width: 390, height: 844 }, colorScheme: "light" }],
  ]) {
    const other = await open(options);
    await other.goto(url);
    await other.getByText("No benchmark is running.").waitFor();
    for (const [place, content] of [["run", ".chart"], ["history", "tbody tr"], ["run/1", "figure svg"], ["compare/1/2", "tbody tr"]]) {
      await other.goto(`${url.split("#")[0]}#/${place}`);
      await other.locator(content).first().waitFor();
      await accessible(other, `${name} ${place}`);
      await fits(other, `${name} ${place}`);
      await other.screenshot({ path: `${directory}/bench-${place.replaceAll("/", "-")}-${name}.png`, fullPage: true });
    }
    await other.context().close();
  }

  // Deleted benchmarks are gone.
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("button", { name: "Delete benchmark 2" }).click();
  await page.getByLabel("Compare benchmark 2").waitFor({ state: "detached" });
});
