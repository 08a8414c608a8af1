// Package folder keeps large files in a folder of the file system. Drivers use it whose engine keeps no large files.
// Several processes may have one folder, also on several machines that share it.
//
// # What lies there
//
//	.lock/NN                             a lock for the keys whose HASH begins so
//	.temp/TIME-RANDOM                    a part that comes
//	c-CONTAINER/HASH/pNUMBER-…           a part as it came
//	c-CONTAINER/HASH/cNUMBER-…           a part of a copied file
//	c-CONTAINER/HASH/manifest            the file: which parts it has
//
// HASH is the SHA-256 of the key in hexadecimal digits. So a key may hold anything, and no file system confuses two
// keys.
//
// # How it works
//
// A part comes into a temporary file. The temporary file is synced and closed, and only then it gets the name of a
// part. That name holds the part's size and a random number, so it is never given twice, and nobody writes to the file
// again. A manifest names the parts of a file. A later part has another name, so it changes nothing before the next
// Commit.
//
// Names are given and removed under the lock of the key, and nothing else is: a body that comes slowly stops nobody.
// The lock is the system's (flock), which forgets dead processes. Reading a file takes no lock. On systems without
// flock one process alone may have a folder.
//
// Copy makes hard links of the parts. On a file system without hard links it copies the bytes.
//
// # Laws
//
//   - A part that was acknowledged is there as a whole, also after a power failure, until a newer one, a Commit or a
//     Delete replaces it.
//   - A file is the manifest and what its parts were when it was committed.
//   - No call follows a link out of the folder.
//   - Temporary files of killed processes are removed a day later. Names that they leave beside a manifest are removed
//     by the next Commit, Copy or Delete of the key.
package folder
