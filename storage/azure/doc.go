// Package azure is the driver for Azure Storage: queues, blobs and tables of one account, by the official SDK.
//
// # Store URLs
//
//	azure://ACCOUNT?prefix=shop           the program's own identity (managed identity in production, the developer's
//	                                      login at home: azidentity's default chain)
//	azure:CONNECTION-STRING?prefix=shop   shared key or shared access signature
//	azure:?prefix=shop                    the connection string in $AZURE_STORAGE_CONNECTION_STRING, so that no secret
//	                                      stands on a command line
//	azure:UseDevelopmentStorage=true      Azurite on this machine's usual ports; on another machine's with
//	                                      ;DevelopmentStorageProxyUri=http://HOST behind it
//
// A connection string has the fields that Azure's SDKs know. Each of them has its effect, or is refused by its name, as are
// the *SecondaryEndpoint, from which nothing is ever read. FileEndpoint alone is taken and not used: the portal writes it
// beside the others.
//
// prefix, up to 12 lower-case letters and digits, stands before all names, so that applications can share an account. An
// account in another cloud: endpoint=core.chinacloudapi.cn, and AZURE_AUTHORITY_HOST for the identity.
//
// # What stands where
//
// A queue q is the queue prefix-q, a container c the container prefix-c, a table t the table prefix-t with its hyphens
// written "zx", since tables can have none. They are created when something is first written to them. Keys keep letters,
// digits and most signs; see keys.go for the others. A message is base64, as other tools expect it, and never expires. A
// row is an entity with its data in the binary property "data".
//
// # Requests, repeats and unknown outcomes
//
// One method is one request for each message, blob or row; a Receive is one, a listing one for each page. A request that
// is answered 429, 500, 502, 503 or 504, or not at all, may have taken effect, unless it was refused before. Whether it is
// repeated is decided for each operation:
//
//   - Reads, and writes that say the same twice (unconditional puts, batches of them): repeated.
//   - Sends: repeated. The queue may then hold a message twice; consumers know its ID. Of one whose body is claim-checked the
//     second copy may come after the first has taken the body along: it goes to the poison queue with the reason "body is gone".
//   - Guarded writes: repeated, and carry a random operation ID. When the repeat finds the condition broken, what is stored is
//     read: if it carries the ID, it is our own write that succeeded. If not, or if it can't be read, the outcome stays
//     unknown, and the error says so: somebody may have written since.
//   - Deletions of blobs and rows, guarded or not: repeated. A repeat that finds nothing has done its work.
//   - Deleting a message: repeated. A repeat that finds the receipt dead reports it stale: it can't know who deleted it.
//   - Receive: repeated. If the lost answer held messages, they come back when their visibility ends.
//   - Extend: never repeated: the answer holds the receipt.
//   - Rewrite: repeated only after an answer that says that nothing was done (429, 503), or when no connection was made.
//
// An answer to a send, or to a write of rows, that begins and never ends is the exception: the SDK asks for none again, so the
// outcome stays unknown. A batch of rows is refused as a whole by an answer about one of them, which counts as that of the whole.
//
// A store that throttles (429, 503, 500 with OperationTimedOut) is obeyed: waits are as long as it says, up to 10 s, and what it
// refuses to the end is storage.ErrThrottled. After a refusal calls for the same queue, container or table wait for their turn
// (internal/rate): up to 15 s or half the time that their context has left, a send half a second; what ends a delivery, or
// extends it, doesn't wait. A call whose deadline comes first is storage.ErrUnavailable and context.DeadlineExceeded, and says what its last try met.
//
// # What differs from an embedded store
//
// Delays and visibilities are whole seconds, rounded up, by the service's clock; a message may come back early by as much as
// two machines' clocks differ there. Stats count at most 32 ready messages exactly. Commit is write, then sends, then
// deletions: package values repairs what a crash leaves between them.
package azure
