// Checks the types of Grafana dashboards: node check.mjs FILE...
// Prints "PASSED" at the end, otherwise what the compiler reports.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

// A JSON value has strings where the types have enumerations of strings.
const types = `
import type { Dashboard, Panel, RowPanel, VariableModel } from "@grafana/schema";
import type { Options as StatOptions } from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type { Options as SeriesOptions, FieldConfig as SeriesField } from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
type Json<T> = T extends string ? \`\${T}\` : T extends (infer U)[] ? Json<U>[]
  : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
interface Target { refId: string; datasource: { type: "prometheus"; uid: string }; expr: string; legendFormat: string }
type Typed<T, O, C> = Omit<Json<Panel>, "type" | "options" | "targets" | "fieldConfig"> & {
  type: T; options: Json<O>; targets: Target[];
  fieldConfig: { defaults: Omit<Json<NonNullable<Panel["fieldConfig"]>["defaults"]>, "custom"> & C; overrides: [] };
};
type AnyPanel = Json<RowPanel> | Typed<"stat", StatOptions, {}> | Typed<"timeseries", SeriesOptions, { custom: Json<SeriesField> }>;
type Checked = Omit<Json<Dashboard>, "panels"> & { panels: AnyPanel[] };
`;
const sources = new Map(
  process.argv.slice(2).map((file) => [
    fileURLToPath(new URL(`${basename(file, ".json")}.ts`, import.meta.url)),
    `${types}export const dashboard: Checked = ${readFileSync(file, "utf8")};\n`,
  ]),
);
const options = {
  strict: true, noEmit: true, skipLibCheck: true, types: [],
  module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, target: ts.ScriptTarget.ESNext,
};
const host = ts.createCompilerHost(options);
const { readFile, fileExists, getSourceFile } = host;
host.readFile = (name) => sources.get(name) ?? readFile(name);
host.fileExists = (name) => sources.has(name) || fileExists(name);
host.getSourceFile = (name, version) =>
  sources.has(name) ? ts.createSourceFile(name, sources.get(name), version) : getSourceFile(name, version);
const program = ts.createProgram([...sources.keys()], options, host);
const errors = ts.getPreEmitDiagnostics(program);
if (errors.length > 0 || sources.size === 0) {
  console.error(ts.formatDiagnostics(errors, { ...host, getCanonicalFileName: (name) => name }));
  process.exit(1);
}
console.log("PASSED");
