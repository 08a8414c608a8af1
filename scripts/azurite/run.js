// Runs Azurite with the given arguments, for storage/azure/azuretest. The standard input controls it: its end kills the
// process, so that it never outlives the tests; "p" stops the answers, "c" continues them. A separate thread reads the
// input, because Azurite's own may be busy or stopped.
'use strict';

const fs = require('node:fs');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

if (isMainThread) {
  const continued = new Int32Array(new SharedArrayBuffer(4)); // the number of the last pause that is over
  new Worker(__filename, { workerData: continued }).on('message', (pause) => {
    fs.writeSync(1, 'paused\n');
    for (let last; (last = Atomics.load(continued, 0)) < pause; ) {
      Atomics.wait(continued, 0, last); // holds the thread that answers
    }
  });
  require('azurite/dist/src/azurite.js');
} else {
  const continued = workerData;
  const byte = Buffer.alloc(1);
  let pauses = 0;
  try {
    while (fs.readSync(0, byte) === 1) {
      if (byte.toString() === 'p') {
        parentPort.postMessage(++pauses);
      } else {
        Atomics.store(continued, 0, pauses);
        Atomics.notify(continued, 0);
      }
    }
  } finally {
    process.kill(process.pid, 'SIGKILL');
  }
}
