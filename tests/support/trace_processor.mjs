// Runs the engine of Perfetto's UI without a browser: standard input -> its trace processor -> standard output.
// Argument: the folder with engine_bundle.js and trace_processor*.wasm. Both streams hold a TraceProcessorRpcStream.
import { readFileSync, writeSync } from "node:fs";
import { basename, join } from "node:path";
import { runInThisContext } from "node:vm";

const folder = process.argv[2];
const read = (name) => new Uint8Array(readFileSync(join(folder, basename(name))));

// What the bundle, a script of a web worker, finds around it. It refuses to run where it sees Node's `process`.
globalThis.self = globalThis;
globalThis.process = undefined;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: "https://localhost/engine_bundle.js" };
globalThis.XMLHttpRequest = class {
  open(method, url) {
    this.url = url;
  }
  send() {
    this.response = read(this.url);
  }
};
console.log = console.warn = console.error; // standard output is for answers

runInThisContext(readFileSync(join(folder, "engine_bundle.js"), "utf8"));
const port = {
  postMessage(answer) {
    for (let at = 0; at < answer.length; ) at += writeSync(1, answer, at);
  },
};
globalThis.onmessage({ data: port });
setTimeout(() => port.onmessage({ data: new Uint8Array(readFileSync(0)) }), 0); // once the engine has initialised itself
