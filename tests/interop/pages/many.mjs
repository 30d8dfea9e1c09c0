// Makes many faces and routes by the API, and uses the pages: node many.mjs URL TOKEN DIRECTORY FACES ROUTES
// Prints times, and "PASSED" at the end.
import { accessible, check, run } from "./common.mjs";

const [url, token, directory, ...counts] = process.argv.slice(2);
const [faces, routes] = counts.map(Number);
/** Operations of one request: it has 400 fields at most. */
const BATCH = 200;
/** Requests in a second, of which 200 are permitted. */
const RATE_MAX = 150;

async function query(text) {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
  const response = await fetch(new URL("/graphql", url), { method: "POST", headers, body: JSON.stringify({ query: text }) });
  const { data, errors } = await response.json();
  check(!errors, JSON.stringify(errors?.[0]));
  return data;
}

/** Executes an operation for each number below `count`, many in a request; returns the seconds that it took. */
async function each(count, operation) {
  const start = performance.now();
  for (let from = 0; from < count; from += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, count - from) }, (_, at) => from + at);
    await query(`mutation { ${numbers.map((number) => `m${number}: ${operation(number)}`).join(" ")} }`);
    const wait = (1000 * (from / BATCH)) / RATE_MAX - (performance.now() - start);
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  }
  return (performance.now() - start) / 1000;
}

const address = (number) => `udp4://127.${1 + (number >> 14)}.${(number >> 7) & 127}.${1 + (number & 127)}:6363`;
const prefix = (number) => `/many/${number % 100}/${number}`;

await run(async (open) => {
  const created = await each(faces, (number) => `facesCreate(uri: "${address(number)}", persistency: "permanent") { faceId }`);
  console.log(`${faces} faces in ${created.toFixed(1)} s`);
  const { faces: [{ faceId }] } = await query('{ faces(first: 1, after: 255, scope: "non-local") { faceId } }');
  const registered = await each(routes, (number) => `ribRegister(name: "${prefix(number)}", faceId: ${faceId}, origin: "static") { name }`);
  console.log(`${routes} routes in ${registered.toFixed(1)} s`);

  const page = await open({ viewport: { width: 1280, height: 900 } });
  await page.goto(`${url}#token=${token}`);
  await page.locator(".tile").first().waitFor();
  /** Prints the time that something takes. */
  const timed = async (what, act) => {
    const start = performance.now();
    await act();
    console.log(`${what}: ${Math.round(performance.now() - start)} ms`);
  };
  const rows = (caption) => page.getByRole("region", { name: caption }).locator("tbody tr");
  await timed("faces", async () => {
    await page.getByRole("link", { name: "Faces" }).click();
    await rows("Faces;").nth(99).waitFor();
  });
  check((await rows("Faces;").count()) === 100, "a page of faces");
  const first = await rows("Faces;").first().locator("td").first().textContent();
  await timed("next faces", async () => {
    await page.getByRole("button", { name: "Next faces" }).click();
    await rows("Faces;").first().locator("td:first-child", { hasNotText: new RegExp(`^${first}$`) }).waitFor();
  });
  // Rates are those of the faces that are shown.
  await rows("Faces;").first().locator("td:nth-child(5)", { hasText: "0 /s" }).waitFor();
  await accessible(page, "many faces");
  await timed("routes", async () => {
    await page.getByRole("link", { name: "Routes" }).click();
    await rows("Routes by prefix").nth(99).waitFor();
  });
  await timed("next routes", async () => {
    await page.getByRole("button", { name: "Next routes" }).click();
    await page.getByRole("button", { name: "Previous routes" }).waitFor();
    await rows("Routes by prefix").nth(99).waitFor();
  });
  await timed("routes under a name", async () => {
    await page.getByLabel("Show names under").fill(prefix(routes - 1));
    await page.getByRole("button", { name: "Filter" }).click();
    await rows("Routes by prefix").nth(1).waitFor({ state: "detached" });
  });
  check((await rows("Routes by prefix").textContent()).includes(prefix(routes - 1)), "the last route");
  await timed("names", async () => {
    await page.getByRole("link", { name: "Names" }).click();
    await page.locator("summary", { hasText: "many" }).getByText(`${routes} FIB entries below`).waitFor();
  });
  await timed("names below a name", async () => {
    await page.locator("summary", { hasText: "many" }).click();
    await page.locator(".tree ul summary", { hasText: `${routes / 100} FIB` }).nth(99).waitFor();
  });
  await accessible(page, "many names");
  await page.screenshot({ path: `${directory}/names-many-light.png` });
  await timed("limits", async () => {
    await page.getByRole("link", { name: "Limits" }).click();
    await page.getByText("The 50 of").waitFor();
  });
  await page.screenshot({ path: `${directory}/limits-many-light.png` });
  await timed("workers", async () => {
    await page.getByRole("link", { name: "Workers" }).click();
    await rows("Tables and memory of workers").first().waitFor();
  });
});
