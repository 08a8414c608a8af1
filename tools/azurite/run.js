// Runs Azurite with the arguments given, for storage/azure/azuretest. It is led by standard input: its end kills the
// process, so that it never outlives the tests, however they ended; "p" stops it from answering, "c" lets it go on.
// A thread of its own reads, because Azurite's may be busy, or stopped.
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
