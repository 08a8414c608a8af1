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
// A connection string has the fields that Azure's SDKs know. Each field has its effect, or is refused by its name.
//
//   - The *SecondaryEndpoint fields are refused: this driver never reads from a secondary.
//   - FileEndpoint is accepted and ignored: the portal writes it beside the others.
//
// The parameter prefix, up to 12 lower-case letters and digits, stands before all names, so that applications can share
// an account. An account in another cloud needs endpoint=core.chinacloudapi.cn, and AZURE_AUTHORITY_HOST for the
// identity.
//
// # How names and data are stored
//
//   - A queue q is the queue prefix-q.
//   - A container c is the container prefix-c.
//   - A table t is the table prefix-t, with its hyphens written "zx": a table's name can't have hyphens.
//   - A key keeps letters, digits and most signs; see keys.go for the others.
//   - A message is base64, as other tools expect it, and never expires.
//   - A row is an entity with its data in the binary property "data".
//   - A file of a container c is a block blob in the container prefix-c, and a part of the file is a block.
//
// Queues, containers and tables are created by the first write to them, and a container of files also by the first URL
// for a part.
//
// # The URLs of files
//
// A URL is a shared access signature for one blob. A store with an account key signs the URL by that key. An identity
// has a user delegation key for signing, which the account gives it. For that, it needs the role Storage Blob Delegator
// or Storage Blob Data Contributor on the account. A store that has only a shared access signature makes no URLs.
//
//   - The URL of a reader has the permission to read.
//   - The URL of a part has the permission to write, the smallest with which the service takes a block. The service
//     doesn't bind the URL to the part: its holder can write all of that one blob, till the URL ends. So a program
//     checks what lies there, and copies the very ETag that it has checked.
//   - An administrator who revokes the delegation keys of the account ends all URLs at once. New ones work after 15
//     minutes at most.
//   - The rule for web pages of other origins belongs to the account. The identity that sets the rule needs the role
//     Storage Account Contributor. The program itself needn't have that role.
//
// # Requests, repeats and unknown outcomes
//
// A method makes one request for each message, blob or row. A Receive makes one, a listing one for each page. A request
// that is answered 429, 500, 502, 503 or 504, or not at all, may have taken effect, unless it was refused before. Each
// operation has its own rule for repeats:
//
//   - A read, or a write that is harmless twice (an unconditional put, or a batch of them), is repeated.
//   - A send is repeated. The queue may then hold a message twice; consumers know its ID. If its body is claim-checked,
//     the first copy may have removed the body before the second is delivered. The second then goes to the poison queue
//     with the reason "body is gone".
//   - A guarded write is repeated, and carries a random operation ID. When a repeat finds the condition broken, the
//     stored document is read. If it carries the ID, this write has succeeded. If not, or if it can't be read, the
//     outcome stays unknown, and the error says so: another writer may have written since.
//   - The deletion of a blob or row, guarded or not, is repeated. A repeat that finds nothing succeeds.
//   - The deletion of a message is repeated. A repeat that finds a dead receipt reports it as stale: it can't know
//     whose request deleted the message.
//   - A Receive is repeated. If the lost answer held messages, they come back when their visibility ends.
//   - An Extend is never repeated: the lost answer holds the new receipt.
//   - A Rewrite is repeated only after an answer that says that nothing was done (429, 503), or when no connection was
//     made.
//
// There is one exception: when the answer to a send, or to a write of rows, begins and never ends, the SDK doesn't
// repeat the request, and the outcome stays unknown. A batch of rows is refused as a whole by an answer about one of
// its rows; that answer counts as the answer to the batch.
//
// # Throttling
//
// A store that throttles (429, 503, 500 with OperationTimedOut) is obeyed:
//
//   - A repeat waits as long as the store says, up to 10 s.
//   - A request that is refused until the last try returns storage.ErrThrottled.
//   - After a refusal, calls for the same queue, container or table wait for their turn (internal/rate). They wait up
//     to 15 s or half the time that their context has left, and a send half a second. A call that ends or extends a
//     delivery doesn't wait.
//   - A call whose deadline passes first returns storage.ErrUnavailable and context.DeadlineExceeded, and reports the
//     failure of its last try.
//
// # Differences from an embedded store
//
//   - Delays and visibilities are whole seconds, rounded up, by the service's clock. A message may come back early by
//     as much as the clocks of two of the service's machines differ.
//   - Stats counts at most 32 ready messages exactly.
//   - A commit is write, then sends, then deletions. Package values repairs what a crash leaves between them.
package azure
