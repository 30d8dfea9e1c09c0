// Uses the status pages of a forwarder under traffic: node check.mjs URL TOKEN DIRECTORY
// Prints "PASSED" at the end. Screenshots go to DIRECTORY.
import { accessible, check, fits, refusesScripts, run } from "./common.mjs";

const [url, token, directory] = process.argv.slice(2);

await run(async (open, errors) => {
  const desktop = { viewport: { width: 1280, height: 900 } };
  const page = await open({ ...desktop, colorScheme: "light" });

  // Without a token, the page asks for one.
  await page.goto(url);
  await page.getByText("Token needed").waitFor();
  await refusesScripts(page, errors);
  await accessible(page, "token");
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Use token" }).click();

  // Rates move.
  const data = page.locator(".tile", { hasText: "Data out" }).locator("dd");
  await page.waitForFunction(() => {
    const tiles = [...document.querySelectorAll(".tile")];
    const tile = tiles.find((one) => one.textContent.includes("Data out"));
    return tile && !tile.querySelector("dd").textContent.startsWith("0 ");
  });
  check(/\d/.test(await data.textContent()), "a rate");
  check((await page.locator("#connection").textContent()) === "live", "the connection is live");
  await page.getByRole("button", { name: "Pause" }).press("Enter");
  await page.getByRole("button", { name: "Resume" }).press("Enter");
  // A chart shows a part of its time, which a key or a drag chooses.
  const chart = page.locator("figure", { hasText: "Data sent and received" });
  const [canvas, whole] = [chart.locator("canvas"), chart.getByRole("button", { name: "Show all" })];
  await canvas.press("+");
  await whole.waitFor();
  await canvas.press("ArrowLeft");
  await accessible(page, "part of a chart");
  await canvas.press("Escape");
  await whole.waitFor({ state: "hidden" });
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.8, box.y + 50);
  await page.mouse.up();
  await whole.waitFor();
  await page.screenshot({ path: `${directory}/chart-part-light.png` });
  await whole.click();
  await whole.waitFor({ state: "hidden" });
  check(/ µs$/.test(await page.locator(".tile", { hasText: "CPU per packet" }).locator("dd").textContent()), "CPU per packet");
  await page.getByText(/No packet was dropped|Dropped packets/).first().waitFor();
  await accessible(page, "overview");
  await page.screenshot({ path: `${directory}/overview-light.png` });

  // A face is created, and a route to it; both are shown, and removed.
  await page.getByRole("link", { name: "Faces" }).click();
  await page.getByLabel("Remote URI").fill("udp4://127.0.0.1:7");
  await page.getByRole("button", { name: "Create face" }).click();
  const face = page.locator("tr", { hasText: "udp4://127.0.0.1:7" });
  await face.waitFor();
  const number = (await face.locator("td").first().textContent()).trim();
  await accessible(page, "faces");
  await page.screenshot({ path: `${directory}/faces-light.png` });
  await page.getByLabel("Remote URI").fill("nonsense");
  await page.getByRole("button", { name: "Create face" }).click();
  await page.getByRole("alert").waitFor();

  await page.getByRole("link", { name: "Routes" }).click();
  await page.getByLabel("Prefix", { exact: true }).fill("/of/the/page");
  await page.getByLabel("Face", { exact: true }).fill(number);
  await page.getByRole("button", { name: "Add route" }).click();
  const route = page.locator("tr", { hasText: "/of/the/page" });
  await route.waitFor();
  await accessible(page, "routes");
  await page.screenshot({ path: `${directory}/routes-light.png` });

  // A route of somebody else is shown without a request of the page, which asks for nothing while nothing changes.
  const requests = [];
  page.on("request", (request) => request.method() === "POST" && requests.push(request.postData()));
  const other = await open(desktop);
  await other.goto(`${url}#token=${token}`);
  const change = (text) => other.evaluate(async ([text, token]) => {
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
    return (await fetch("/graphql", { method: "POST", headers, body: JSON.stringify({ query: text }) })).json();
  }, [text, token]);
  const given = `name: "/of/another", faceId: ${number}, origin: "static"`;
  await change(`mutation { ribRegister(${given}) { name } }`);
  await page.locator("tr", { hasText: "/of/another" }).waitFor();
  // An event may follow a reading that has shown its route already.
  await page.waitForTimeout(1500);
  const before = requests.length;
  // Absence takes time to be seen: longer than the interval of lists that are read again and again.
  await page.waitForTimeout(4000);
  check(requests.length === before, `the page asks without reason: ${requests.slice(before)}`);
  await change(`mutation { ribUnregister(${given}) { name } }`);
  await page.locator("tr", { hasText: "/of/another" }).waitFor({ state: "detached" });
  await other.context().close();
  await page.getByLabel("Show names under").fill("/of/the");
  await page.getByRole("button", { name: "Filter" }).click();
  await route.waitFor();

  // A link leads to the same page after a reload.
  await page.reload();
  await route.waitFor();
  check(page.url().endsWith("#/routes"), page.url());
  await route.getByRole("button").click();
  await route.waitFor({ state: "detached" });

  // Packets: a trace under a prefix, its filter, and its error.
  await page.getByRole("link", { name: "Packets" }).click();
  await page.getByLabel("Names under").fill("/traffic");
  await page.getByRole("button", { name: "Start trace" }).click();
  const traced = page.getByRole("region", { name: "Packets, the latest first" }).locator("tbody tr");
  await traced.filter({ hasText: "PIT satisfied" }).first().waitFor();
  await page.getByLabel("Show only lines").fill("cs inserted");
  await traced.filter({ hasText: "PIT new" }).first().waitFor({ state: "detached" });
  await traced.filter({ hasText: "CS inserted" }).first().waitFor();
  await accessible(page, "packets");
  await page.screenshot({ path: `${directory}/packets-light.png` });
  await page.getByRole("button", { name: "Stop trace" }).click();
  await page.getByLabel("Names under").fill("/%");
  await page.getByRole("button", { name: "Start trace" }).click();
  await page.getByRole("alert").waitFor();

  // The tree of names opens with the keyboard, and shows a node below another.
  await page.getByRole("link", { name: "Names" }).click();
  const localhost = page.locator("summary", { hasText: "localhost" });
  await localhost.press("Enter");
  await page.locator(".tree").getByText("nfd").first().waitFor();
  await page.locator("summary", { hasText: "traffic" }).press("Enter");
  await page.locator(".tree .leaf", { hasText: "ping" }).getByText(/face \d+ \(cost 0, app\)/).waitFor();
  await accessible(page, "names");
  await page.screenshot({ path: `${directory}/names-light.png` });
  await page.getByLabel("Names under").fill("/localhost");
  await page.getByRole("button", { name: "Show" }).click();
  await localhost.waitFor({ state: "detached" });
  await page.locator(".tree").getByText("nfd").first().waitFor();

  // Applications: the producer has a rate from the second reading on.
  await page.getByRole("link", { name: "Applications" }).click();
  const application = page.locator("tr", { hasText: "/traffic" });
  await application.locator("td:nth-child(7)", { hasText: /^[1-9]/ }).waitFor();
  await accessible(page, "applications");
  await page.screenshot({ path: `${directory}/applications-light.png` });

  // A capture with a filter, its dissection, and its file.
  await page.getByRole("link", { name: "Capture" }).click();
  await page.getByLabel("Names under").fill("/traffic");
  await page.getByLabel("Type").selectOption("Data");
  await page.getByRole("button", { name: "Start capture" }).click();
  const captured = page.getByRole("region", { name: "Captured packets" }).locator("tbody tr");
  await captured.first().waitFor();
  check((await captured.filter({ hasText: "Interest" }).count()) === 0, "only Data");
  await captured.first().getByRole("button").press("Enter");
  await page.getByRole("region", { name: "Dissection" }).getByText(/SignatureInfo/).waitFor();
  await accessible(page, "capture");
  await page.screenshot({ path: `${directory}/capture-light.png` });
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save as pcapng" }).click();
  await (await download).saveAs(`${directory}/capture.pcapng`);
  await page.getByRole("button", { name: "Stop capture" }).click();
  await page.getByLabel("Face (empty").fill("9999999");
  await page.getByRole("button", { name: "Start capture" }).click();
  await page.getByRole("alert").getByText("there is no face 9999999").waitFor();

  // The log: what was logged before, a change of levels, and what it logs.
  await page.getByRole("link", { name: "Log" }).click();
  const messages = page.getByRole("region", { name: "Messages" }).locator("tbody tr");
  await messages.filter({ hasText: "changed by the HTTP API" }).first().waitFor();
  await page.getByLabel("Change the levels").fill("namewire_http=debug");
  await page.getByRole("button", { name: "Change" }).click();
  await page.getByText("namewire_http=debug. Other").waitFor();
  await page.getByRole("combobox").selectOption("debug");
  await messages.filter({ hasText: "debug" }).filter({ hasText: "namewire_http" }).first().waitFor();
  await accessible(page, "log");
  await page.screenshot({ path: `${directory}/log-light.png` });
  await page.getByLabel("Show only lines").fill("no message has this");
  await page.getByText("No message of this level").waitFor();

  // Workers: load, drops by reason; limits: who holds what.
  await page.getByRole("link", { name: "Workers" }).click();
  const workers = page.getByRole("region", { name: "Workers", exact: true });
  await workers.locator("tbody tr").first().waitFor();
  const rates = await workers.locator("tbody td:nth-child(3)").allTextContents();
  check(rates.length === 2 && rates.some((rate) => /^[1-9]/.test(rate)), `packets of the workers: ${rates}`);
  await page.getByText("Dispatch of names to workers").waitFor();
  await accessible(page, "workers");
  await page.screenshot({ path: `${directory}/workers-light.png`, fullPage: true });
  await page.getByRole("link", { name: "Limits" }).click();
  const principals = page.getByRole("region", { name: "Principals" });
  await principals.locator("tr", { hasText: "local" }).first().waitFor();
  await page.getByRole("region", { name: "Shared tables and memory" }).getByText("pit entries").waitFor();
  await accessible(page, "limits");
  await page.screenshot({ path: `${directory}/limits-light.png`, fullPage: true });

  check(!requests.some((text) => /ndtList|limits/.test(text)), "limits and dispatch are pushed");

  // Tasks: a producer and a consumer of traffic, whose metrics move, and a refused file server.
  await page.getByRole("link", { name: "Tasks" }).click();
  await page.getByText("There are no tasks yet.").waitFor();
  for (const kind of ["trafficProducer", "trafficConsumer"]) {
    await page.getByLabel("Kind").selectOption(kind);
    await page.getByLabel("Prefixes").fill("/page/load");
    if (kind === "trafficConsumer") await page.getByLabel("Interests per second").fill("100");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.locator("tr", { hasText: kind === "trafficProducer" ? "Traffic producer" : "Traffic consumer" }).getByText("running").waitFor();
  }
  await page.getByRole("button", { name: "details of task 2" }).click();
  await page.locator(".tile", { hasText: "ended interests" }).locator("dd", { hasText: /^[1-9]/ }).waitFor();
  await accessible(page, "tasks");
  await page.screenshot({ path: `${directory}/tasks-light.png`, fullPage: true });
  await page.getByRole("button", { name: "Stop task 2" }).click();
  await page.locator("tr", { hasText: "Traffic consumer" }).getByText("stopped").waitFor();
  await page.getByText("cpu_us_per_interest").waitFor();
  const asked = requests.filter((text) => text.includes("{ tasks"));
  check(asked.length === 1 && asked[0].includes("result"), "tasks are pushed, and a result is read once");
  await page.getByLabel("Kind").selectOption("fileServer");
  await page.getByLabel("Prefix").fill("/page/files");
  await page.getByLabel("Directory").fill("/etc");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("alert").getByText("control.http.directories").waitFor();
  // Two trials of a benchmark, with live figures.
  await page.getByLabel("Kind").selectOption("benchmark");
  await page.getByLabel("Duration").fill("4");
  await page.getByLabel("Trials").fill("2");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("button", { name: "details of task 3" }).click();
  await page.locator(".tile", { hasText: "Goodput A → B" }).locator("dd", { hasText: /^[1-9].*bit\/s$/ }).waitFor();
  await accessible(page, "running benchmark");
  await page.screenshot({ path: `${directory}/tasks-running-light.png`, fullPage: true });
  await page.getByRole("region", { name: "Mean and 95 % interval" }).getByText(/±/).first().waitFor();
  await accessible(page, "benchmark");
  await page.screenshot({ path: `${directory}/tasks-benchmark-light.png`, fullPage: true });
  // It is in the history.
  await page.getByRole("button", { name: "History of benchmarks" }).click();
  await page.getByLabel("Compare benchmark 1").check();
  await page.getByRole("button", { name: "Compare two" }).click();
  await page.getByText("Choose two benchmarks to compare.").waitFor();
  await accessible(page, "history of benchmarks");

  // Dark, with the token in the link, and at the width of a phone.
  for (const [name, options] of [
    ["dark", { ...desktop, colorScheme: "dark" }],
    ["phone", { viewport: { width: 390, height: 844 }, colorScheme: "light" }],
  ]) {
    const other = await open(options);
    await other.goto(`${url}#token=${token}`);
    for (const place of ["overview", "faces", "routes", "names", "applications", "packets", "capture", "workers", "limits", "tasks", "log"]) {
      await other.goto(`${url}#/${place}`);
      if (place === "packets") await other.getByRole("button", { name: "Start trace" }).click();
      if (place === "tasks") await other.getByRole("button", { name: "details of task 3" }).click();
      if (place === "capture") await other.getByRole("button", { name: "Start capture" }).click();
      const content = { overview: ".tile", names: ".tree .tag" }[place] ?? "tbody tr";
      await other.locator(content).first().waitFor();
      await accessible(other, `${name} ${place}`);
      await fits(other, `${name} ${place}`);
      await other.screenshot({ path: `${directory}/${place}-${name}.png` });
    }
    await other.context().close();
  }
});
