// Makes the page: node build.mjs MODULES OUT. MODULES is the node_modules folder; the sources lie beside this file.
//
// All goes into one file: style, script and the licences of what is bundled. The Content-Security-Policy names the
// script by its hash, so that nothing else in the page can run.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [modules, out] = process.argv.slice(2).map((path) => resolve(path));
const esbuild = createRequire(join(modules, "/"))(join(modules, "esbuild"));

const made = await esbuild.build({
  entryPoints: [join(here, "main.js")],
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  charset: "ascii",
  format: "iife",
  target: ["chrome90", "firefox90", "safari15"],
  nodePaths: [modules],
  legalComments: "none", // whole licences stand in the page
  logLevel: "warning",
});
const script = made.outputFiles[0].text.trim();
const style = await esbuild.transform(readFileSync(join(here, "page.css"), "utf8"), { loader: "css", minify: true });

// Of each package whose code is in the bundle, what it wants to be said.
function licences(inputs) {
  const names = new Set();
  for (const path of inputs) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (found) names.add(found[1]);
  }
  const texts = [];
  for (const name of [...names].sort()) {
    const { version, license } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
    texts.push(`${name} ${version} (${license})`);
    const folder = join(modules, name);
    const more = existsSync(join(folder, "licenses")) ? readdirSync(join(folder, "licenses")).map((file) => `licenses/${file}`) : [];
    for (const file of ["NOTICE", "LICENSE", "LICENSE.txt", ...more.sort()]) {
      if (existsSync(join(folder, file))) texts.push(readFileSync(join(folder, file), "utf8").trim());
    }
  }
  return texts.join("\n\n").replace(/\r/g, "").replace(/\t/g, "    ");
}

function escaped(text) {
  return text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
}

if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
const parts = {
  "SCRIPT-HASH": `sha256-${createHash("sha256").update(script).digest("base64")}`,
  STYLE: style.code.trim(),
  LICENCES: escaped(licences(Object.keys(made.metafile.inputs))),
  SCRIPT: script,
};
const page = readFileSync(join(here, "page.html"), "utf8")
  .replace(/@([A-Z-]+)@/g, (whole, name) => parts[name] ?? whole);
if (page.split("@REPORT-DATA@").length !== 2) throw new Error("the data have one place");
writeFileSync(`${out}.new`, page);
renameSync(`${out}.new`, out);
