package storagetest_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/storagetest"
)

// bugEnv names the environment variable with the bug for TestBroken's model, in a separate process.
const bugEnv = "STORAGETEST_BUG"

// broken lists deliberate faults of the model, each with a test of the suite that must catch it.
var broken = []struct{ bug, test string }{
	{"lists no queue", "queue/a queue with messages is listed"},
	{"shares what it shows", "peek/what waits is shown"},
	{"looking delivers", "peek/looking is no delivery"},
	{"shows what is held", "peek/a message in flight is not shown"},
	{"shows delayed messages first", "peek/ready messages come before delayed ones"},
	{"shows one page", "peek/over many pages"},
	{"shows no receipts", "peek/what waits can be deleted"},
	{"shows receipts that delete nothing", "peek/what waits can be deleted"},
	{"props without a limit", "props/are sane"},

	{"cuts bodies at NUL", "queue/bodies come back byte for byte"},
	{"repairs UTF-8", "queue/bodies come back byte for byte"},
	{"trims bodies", "queue/bodies come back byte for byte"},
	{"size limit off by one", "queue/a body of exactly the limit"},
	{"tells bodies in errors", "blobs/if match"},
	{"wraps twice", "blobs/missing"},
	{"more than max", "queue/never more than max"},
	{"stats count all as ready", "queue/stats count"},
	{"age since ready", "queue/stats tell the oldest"},
	{"no send time", "queue/sent at"},
	{"rewrite sends again", "queue/sent at"},

	{"keeps the receipt over deliveries", "receipts/a delivery kills the receipt before it"},
	{"delete on a dead receipt", "receipts/delete names exactly the dead receipts"},
	{"delete stops at a dead receipt", "receipts/delete names exactly the dead receipts"},
	{"delete names all receipts", "receipts/delete names exactly the dead receipts"},
	{"delete tells of no dead receipt", "receipts/a deleted message is out of reach"},
	{"extend keeps the receipt", "receipts/extend gives a new receipt"},
	{"extend keeps the old receipt alive", "receipts/extend gives a new receipt"},
	{"extend does not extend", "receipts/a late extension hides what waits behind others"},
	{"extend erases the body", "receipts/extend gives a new receipt"},
	{"extend does not extend", "receipts/extend hides for longer"},
	{"extend only lengthens", "receipts/extend can shorten"},
	{"extend never hands back", "receipts/extend by nothing hands back"},
	{"rewrite keeps the body", "receipts/rewrite replaces the body"},
	{"rewrite ignores an empty body", "receipts/rewrite replaces the body"},
	{"rewrite counts from nothing", "receipts/a message retried with back-off"},
	{"rewrite loses the delay", "receipts/rewrite hides for its delay"},
	{"rewrite keeps the receipt", "receipts/rewrite hides for its delay"},
	{"receipts die with the visibility", "receipts/an ended visibility alone kills nothing"},
	{"any receipt will do", "receipts/receipts of another queue"},
	{"panics on garbage", "receipts/garbage receipts"},
	{"trims receipts", "receipts/garbage receipts"},
	{"tells receipts in errors", "receipts/a delivery kills the receipt before it"},

	{"loses delays", "timing/a delayed message is not early and not lost"},
	{"loses delays", "timing/every message has its own delay"},
	{"ignores visibility", "timing/a message comes back when its visibility ends"},
	{"never delivers again", "timing/a message comes back when its visibility ends"},
	{"does not count deliveries", "timing/a message comes back again and again"},
	{"visibility in whole seconds", "timing/a fraction of a second in a visibility"},
	{"delay in whole seconds", "timing/a fraction of a second in a delay"},
	{"delivers twice", "races/competing receivers get each message once"},

	{"put ignores conditions", "blobs/if match"},
	{"put ignores if-match", "blobs/if match"},
	{"put ignores if-match", "table/if match"},
	{"put ignores if-absent", "blobs/if absent"},
	{"put ignores if-absent", "table/32 creators have one winner"},
	{"if-match creates", "blobs/if match"},
	{"any etag matches the star", "blobs/no wildcards among etags"},
	{"any etag matches the star", "blobs/not modified"},
	{"puts race", "blobs/32 writers under one etag have one winner"},
	{"puts race", "table/counting under contention loses nothing"},
	{"etags of content", "blobs/every write has its own etag"},
	{"etags by key", "blobs/etags are not used again after a deletion"},
	{"no etags", "table/put then get then delete"},
	{"get ignores if-none-match", "blobs/not modified"},
	{"never modified", "blobs/not modified"},
	{"missing is empty", "blobs/missing"},
	{"deleting nothing is fine", "table/missing"},
	{"deleting nothing is a lost race", "blobs/missing"},
	{"delete ignores conditions", "blobs/delete with conditions"},

	{"lists without order", "listing/blobs in byte order"},
	{"lists in UTF-16 order", "listing/rows in byte order"},
	{"lists without case", "listing/blobs in byte order"},
	{"lists one page", "listing/blobs over many pages"},
	{"lists one page", "table/paging by the last key"},
	{"lists from the beginning", "listing/blobs after a key"},
	{"lists quoted etags", "listing/blobs tell etag and size and time"},
	{"prefixes are patterns", "listing/blobs by a prefix that looks like a pattern"},
	{"pages overlap", "listing/rows over many pages"},
	{"listings hide cancellation", "listing/blobs cancelled in the middle"},
	{"query leaves out from", "table/ranges"},
	{"query includes to", "table/ranges"},
	{"query trims from", "table/paging by the last key"},
	{"query ignores the limit", "table/ranges"},
	{"partitions flow together", "table/partitions are apart"},
	{"batch deletes what is there only", "batch/rows go together, those that are gone too"},
	{"batch keeps etags", "batch/rows replace rows and get new etags"},
	{"batches mix", "batch/concurrent batches do not mix"},

	{"keys without case", "names and keys/nasty keys in blobs"},
	{"keys composed", "names and keys/nasty keys in rows"},
	{"keys decoded", "names and keys/nasty keys in blobs"},
	{"keys trimmed", "names and keys/nasty keys in rows"},
	{"keys cut", "names and keys/nasty keys in blobs"},
	{"keys with the other slash", "names and keys/nasty keys in blobs"},

	{"keeps what is sent", "aliasing/what is sent may be overwritten"},
	{"keeps what is rewritten", "aliasing/what is sent may be overwritten"},
	{"keeps what is put", "aliasing/what is put may be overwritten"},
	{"hands out what it keeps", "aliasing/what is received may be overwritten"},
	{"hands out what it keeps", "aliasing/what is got may be overwritten"},
	{"bodies share memory", "aliasing/bodies received together do not touch"},
	{"overwrites its arguments", "aliasing/arguments are not changed"},

	{"ignores the context", "listing/blobs cancelled in the middle"},
	{"hides the cause", "listing/rows cancelled in the middle"},
	{"uses a body after a cancelled call", "cancelling/while many send"},

	{"commit sends before the condition", "commit/a failed if-match does nothing at all"},
	{"commit deletes whatever the condition", "commit/a failed if-absent does nothing at all"},
	{"commit forgets the last send", "commit/write and send and delete"},
	{"commit forgets the rows", "commit/rows go with the write"},
	{"commit puts rows before the condition", "commit/rows go with the write"},
	{"commit fails on a dead receipt", "commit/stale receipts undo nothing and are published"},
	{"commit tells of no dead receipt", "commit/stale receipts undo nothing and are published"},
	{"puts race", "commit/concurrent commits on one document"},
	{"commit is visible half-way", "atomic/no reader sees half a commit"},
	{"hangs half-way when cancelled", "atomic/no cancelled commit is half done"},
	{"sends a batch bit by bit", "atomic/no receiver sees half a batch"},

	{"never rings", "listen/after a send"},
	{"rings for sends only", "listen/at the end of a delay"},
	{"rings for sends only", "listen/at the end of a visibility"},
	{"rings one listener", "listen/all listeners of a queue"},
	{"rings without a buffer", "listen/rings nobody takes are folded"},
	{"rings after close", "listen/after close no more"},
	{"rings queues only", "listen/a topic that is no queue rings all"},
	{"rings one listener", "listen/a topic that is no queue rings all"},
	{"rings by a message", "listen/a topic that is no queue rings all"},
	{"rings topics in its own store", "listen/a topic rings in a second store"},
	{"two stores see two places", "listen/what a second store sends"},

	{"subscribes late", "publish/ready when subscribe returns"},
	{"publishes to the first one", "publish/to one of many"},
	{"publishes to one twice", "publish/to one of many"},
	{"publishes to whatever the topic", "publish/to one of many"},
	{"publishes to one by turns", "publish/to one by their room"},
	{"counts those that refuse", "publish/to those that would take it"},
	{"gives up when one refuses", "publish/to those that would take it"},
	{"subscribes after close", "publish/after close no more"},
	{"publishes to one twice", "publish/concurrently"},
	{"receivers share data", "publish/data is the receiver's own"},
	{"cuts what is published", "publish/data of any size up to the limit"},
	{"dies of a receiver", "publish/a receiver that panics"},
	{"publishes to its own store only", "publish/a second store subscribes and publishes"},
	{"publishes to its own store only", "publish/one over two stores"},
	{"publishes to one twice", "publish/one over two stores"},
	{"publishes to whatever the topic", "publish/to nobody"},
	{"never lost", "publish/close of the store"},

	{"never claims", "claim/what is sent comes claimed"},
	{"claimed long ago", "claim/what is sent comes claimed"},
	{"claims what it doesn't hide", "claim/what is sent comes claimed"},
	{"claims before it writes", "claim/what is sent comes claimed"},
	{"claims before it writes", "claim/what was claimed is durable"},
	{"never claims", "claim/what a commit sends comes claimed"},
	{"claims more than max", "claim/never more than max"},
	{"claims what is delayed", "claim/nothing that is delayed"},
	{"claims for who has left", "claim/a claim that has ended gets nothing"},
	{"claims what it doesn't hide", "claim/what was claimed comes back"},

	{"forgets keys", "find/what is found can be deleted"},
	{"shares what it finds", "find/what is found can be deleted"},
	{"finds whatever the key", "find/a key finds its messages only"},
	{"finds without case", "find/a key finds its messages only"},
	{"forgets keys", "find/what a commit sends has its key"},
	{"finding delivers", "find/finding is no delivery"},
	{"extends what is found", "find/a found receipt is good for deletion alone"},
	{"finds receipts of others", "find/a message in flight has no receipt"},
	{"a delivery keeps what was found", "find/a receipt dies with the delivery"},
	{"a delivery keeps what was found", "find/a finder or a receiver and never both"},
	{"rewrite hides from the finder", "find/a rewritten message is found as it is"},
	{"two stores see two places", "find/a second store finds it too"},

	{"second close fails", "close/twice"},
	{"works after close", "close/ends every later call"},
	{"two stores see two places", "two stores/see each other's writes"},
	{"two stores see two places", "durable/everything is found again"},
	{"each opening numbers its etags", "durable/etags are not used again"},
}

// TestBroken runs the suite on a model with the bug that TestBugsAreCaught names. Without one it does nothing.
func TestBroken(t *testing.T) {
	bug := os.Getenv(bugEnv)
	if bug == "" {
		return
	}
	cfg := onModel(bug, bare)
	cfg.PeeksDelayed, cfg.PeeksReceipts = true, true
	cfg.RingsVisibility, cfg.Patience = true, 2*time.Second
	storagetest.Run(t, cfg)
}

// TestBugsAreCaught shows that the suite can fail: each bug fails the test for it. A failing test can't run within
// a passing one, so each bug has a process of its own.
func TestBugsAreCaught(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a process for each of many bugs")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	slots := make(chan struct{}, 8) // more than there are processors, because tests mostly wait
	var all sync.WaitGroup
	for _, x := range broken {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(x.bug+" caught by "+x.test, func(t *testing.T) {
				name := strings.ReplaceAll("TestBroken/"+x.test, " ", "_")
				pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
				cmd := exec.CommandContext(t.Context(), self, "-test.run="+pattern, "-test.timeout=60s")
				cmd.Env = append(os.Environ(), bugEnv+"="+x.bug, "GORACE=atexit_sleep_ms=0")
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), "--- FAIL: "+name+" ") {
					t.Errorf("not caught (%v):\n%s", err, out)
				}
			})
		})
	}
	all.Wait()
}
