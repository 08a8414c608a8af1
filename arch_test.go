package millrace_test

import (
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/millrace-go/millrace"

// A floor says what a package may import from this module, and why no more. A name that ends with /... means the
// package and all below it.
type floor struct {
	pkg    string
	may    []string
	vendor bool // packages of other modules, except those in owned
	why    string
	tests  []string // what its tests may import in addition
}

// house is the import table; the first floor that fits a package counts.
func house() []floor {
	world := []string{"internal/worldtest", "internal/wire", "internal/tracing/tracingtest"}
	framework := []string{"files/assets", "files/valet", "ops/cost", "throttle", "guard", "settings", "worker", "worker/limiters", "coord/pause", "coord/ids", "coord/gate", "coord/signal", "coord/lease", "coord/quorum", "coord/leader", "coord/limit", "coord/keylock", "poison", "spool", "process", "handlers", "views", "values", "schedule", "channel", "storage", "storage/lanes"}
	return []floor{
		{pkg: ".", why: "the root holds no code"},
		{pkg: "storage/driver", why: "what a driver writes: the standard library and nothing else"},
		{pkg: "storage", may: []string{"internal/contain", "storage/driver", "internal/right"}, why: "it is what everybody holds: the drivers' interfaces, the standard library, the clock of a caller's right, and what contains a stranger's Open, nothing else"},
		{pkg: "storage/internal/pubsub", may: []string{"storage/driver", "internal/contain"}, why: "drivers share it, and give it their transport: the interfaces and the standard library are enough"},
		{pkg: "storage/internal/rings", why: "drivers share it: it knows timers and names, so the standard library is enough"},
		{pkg: "storage/internal/folder", may: []string{"storage/driver", "internal/beside"}, why: "drivers share it, and give it a path: the interfaces, the standard library, and whose the files of root are, are enough"},
		{pkg: "files/assets", may: []string{"storage", "views", "internal/lru", "internal/seldom", "internal/storecall"}, vendor: true, why: "it serves files from memory, and publishes them in any store", tests: []string{"internal/browsertest"}},
		{pkg: "files/valet/internal/key", may: []string{"storage"}, vendor: true, why: "it signs what a key says, and doesn't know whom it is for"},
		{pkg: "files/valet", may: []string{"files/valet/internal/key", "channel", "guard", "handlers", "internal/seldom", "internal/wire", "ops/audit", "storage", "values"}, vendor: true, why: "it is value objects with keys to their bytes; it doesn't know who serves its pages, nor who runs its handlers", tests: append([]string{"millracetest", "worker", "internal/boottest", "internal/browsertest", "internal/valettest"}, world...)},
		{pkg: "storage/inbox", may: []string{"storage"}, vendor: true, why: "it waits for the queues of any store"},
		{pkg: "storage/storagetest", may: []string{"internal/contain", "storage", "storage/driver"}, why: "the conformance suite tests any driver, so it knows the ports only"},
		{pkg: "storage/azure/azuretest", why: "it starts a program for tests and knows nothing of what they test"},
		{pkg: "storage/redis/redistest", vendor: true, why: "it starts servers for tests and asks them as an operator does; it knows nothing of what they test"},
		{pkg: "internal/contain", why: "it calls any code and doesn't know what the code is for: the standard library is enough"},
		{pkg: "internal/parttest", why: "it knows which tests a run has, and none of them: the standard library is enough"},
		{pkg: "internal/flock", why: "it locks files and doesn't know what they are for: the standard library is enough"},
		{pkg: "internal/beside", why: "it opens files and doesn't know what they are for: the standard library is enough"},
		{pkg: "internal/seldom", why: "it logs for requests and doesn't know what they are for: the standard library is enough"},
		{pkg: "internal/wall", why: "it compares two clocks, and doesn't know what waits for them: the standard library is enough"},
		{pkg: "internal/storecall", may: []string{"storage"}, why: "it bounds, repeats and checks calls of a store and doesn't know what they are for"},
		{pkg: "internal/right", why: "it ends a context when a proof ends and doesn't know of what: the standard library is enough"},
		{pkg: "internal/agree", may: []string{"storage", "internal/storecall", "internal/right", "internal/lru"}, why: "it keeps a process up to date with a document that others change, too, and holds what the document gives to the process; it doesn't know what the document says", tests: []string{"internal/agreetest"}},
		{pkg: "internal/agreetest", may: []string{"storage", "storage/driver", "storage/sqlite", "storage/storagetest"}, why: "it is the world of the coordination packages' tests, and knows none of them"},
		{pkg: "internal/metrics", vendor: true, why: "it registers metrics and doesn't know of what"},
		{pkg: "coord/ids", may: []string{"storage", "internal/storecall", "internal/metrics"}, vendor: true, why: "it stands on guarded writes, which every store has", tests: []string{"internal/agreetest"}},
		{pkg: "coord/lease", may: []string{"storage", "internal/agree", "internal/storecall", "internal/contain", "internal/metrics", "internal/right"}, vendor: true, why: "it stands on guarded writes, which every store has", tests: []string{"internal/agreetest"}},
		{pkg: "coord/gate", may: []string{"storage", "internal/agree", "internal/storecall", "internal/metrics"}, vendor: true, why: "it stands on guarded writes, which every store has, and on rings", tests: []string{"internal/agreetest"}},
		{pkg: "coord/pause", may: []string{"storage", "internal/agree", "internal/storecall"}, why: "it stands on guarded writes, which every store has, and on rings", tests: []string{"internal/agreetest"}},
		{pkg: "coord/signal", may: []string{"storage", "internal/storecall", "internal/metrics"}, vendor: true, why: "it stands on what a store tells its listeners, and stores nothing", tests: []string{"internal/agreetest"}},
		{pkg: "coord/quorum", may: []string{"storage", "internal/agree", "internal/storecall", "internal/contain", "internal/metrics", "internal/right"}, vendor: true, why: "it stands on guarded writes in several stores", tests: []string{"internal/agreetest"}},
		{pkg: "coord/leader", may: []string{"storage", "coord/lease", "internal/agree", "internal/storecall", "internal/metrics", "internal/right", "internal/contain"}, vendor: true, why: "a leader is the holder of a lease that everybody wants", tests: []string{"internal/agreetest"}},
		{pkg: "coord/limit/internal/bucket", why: "it is what calls see of one process's share: it knows neither who gives the share nor a store, so the standard library is enough"},
		{pkg: "coord/limit/internal/row", may: []string{"coord/limit/internal/bucket", "storage", "internal/agree", "internal/storecall"}, why: "it is a process's row in the document that divides a number, and keeps a bucket by that; it doesn't know the calls", tests: []string{"internal/agreetest"}},
		{pkg: "coord/limit", may: []string{"coord/limit/internal/bucket", "coord/limit/internal/row", "storage", "internal/storecall", "internal/contain"}, why: "it divides by a row and a bucket, and is what a user sees of both", tests: []string{"internal/agreetest"}},
		{pkg: "coord/keylock", may: []string{"storage", "internal/agree", "internal/storecall", "internal/lru", "internal/right"}, why: "it stands on guarded writes of rows, which every store has, and doesn't know who takes turns", tests: []string{"internal/agreetest"}},
		{pkg: "coord/members", may: []string{"internal/agree", "storage", "internal/storecall"}, why: "it stands on rows, which every store has", tests: []string{"internal/agreetest"}},
		{pkg: "storage/doorbell", may: []string{"storage", "storage/driver", "storage/internal/pubsub"}, why: "it decorates any store: the ports and the standard library are enough", tests: []string{"storage/sqlite", "storage/inbox"}},
		{pkg: "storage/lanes", may: []string{"internal/storecall", "storage", "storage/driver"}, why: "it decorates any store: the ports and the standard library are enough", tests: []string{"storage/sqlite", "storage/azure", "storage/azure/azuretest", "channel", "handlers", "poison", "worker", "internal/worldtest"}},
		{pkg: "storage/sqlite/internal/peers", may: []string{"internal/flock", "internal/beside"}, vendor: true, why: "it knows files and locks, not what is stored: the driver gives it functions"},
		{pkg: "storage/sqlite/internal/engine", may: []string{"storage/driver"}, vendor: true, why: "it runs transactions on a file and doesn't know what they write: of the ports it needs the kinds of errors alone"},
		{pkg: "storage/sqlite", may: []string{"storage", "storage/driver", "storage/internal/pubsub", "storage/internal/rings", "storage/internal/folder", "storage/sqlite/internal/peers", "storage/sqlite/internal/engine"}, vendor: true, why: "a driver knows the interfaces and its engine; the parts below it don't know it"},
		{pkg: "storage/redis/internal/client", vendor: true, why: "it talks to a server and doesn't know about what: a change of the library changes this package alone"},
		{pkg: "storage/redis/internal/engine", may: []string{"storage/driver", "storage/redis/internal/client"}, why: "it runs scripts on a server: of the ports it needs the kinds of errors alone"},
		{pkg: "storage/redis/virtualtest", may: []string{"storage", "storage/redis", "storage/redis/internal/client"}, why: "it stands between a store and its server, and knows nothing of what is tested", tests: []string{"storage/redis/redistest"}},
		{pkg: "storage/redis", may: []string{"storage", "storage/driver", "storage/internal/pubsub", "storage/internal/rings", "storage/internal/folder", "storage/redis/internal/client", "storage/redis/internal/engine"}, why: "a driver knows the interfaces and its engine; the parts below it don't know it", tests: []string{"coord/lease"}},
		{pkg: "storage/...", may: []string{"storage", "storage/driver", "internal/rate"}, vendor: true, why: "a driver knows the interfaces and its engine; drivers don't know one another, nor what they are used for", tests: []string{"internal/valettest"}},
		{pkg: "ops/audit", may: []string{"storage"}, vendor: true, why: "it notes what somebody does, whatever that is; whoever acts calls it", tests: []string{"storage/storagetest", "internal/worldtest"}},
		{pkg: "ops/cost", may: []string{"storage"}, vendor: true, why: "it counts what any store asks of its engine, whatever for"},
		{pkg: "internal/jsonform", vendor: true, why: "it knows Go types and JSON, not what is made of them"},
		{pkg: "internal/wire", may: []string{"internal/contain", "storage", "storage/lanes", "internal/jsonform"}, vendor: true, why: "it is what senders and handlers share and users need not see, below both: envelopes, how they are stored, and the queues that they go to"},
		{pkg: "internal/tracing/tracingtest", vendor: true, why: "it records spans and doesn't know of what"},
		{pkg: "internal/tracing", may: []string{"internal/wire"}, vendor: true, why: "it knows how messages are described in traces, not how they are sent or handled", tests: []string{"internal/tracing/tracingtest"}},
		{pkg: "channel", may: []string{"internal/wire", "internal/tracing", "storage", "storage/lanes", "internal/contain"}, vendor: true, why: "messages know how they are stored, not how they are handled", tests: world},
		{pkg: "values", may: []string{"internal/lru", "channel", "internal/wire", "internal/tracing", "storage", "internal/jsonform", "internal/contain"}, vendor: true, why: "the document with its replay record is below both Decide and Project", tests: world},
		{pkg: "settings", may: []string{"storage", "internal/agree", "internal/storecall", "internal/beside", "internal/jsonform", "internal/metrics", "internal/contain"}, why: "it is a document, versions and rows, which every store has, and rings that tell of them; it doesn't know what the settings are for"},
		{pkg: "poison", may: []string{"channel", "internal/wire", "storage"}, vendor: true, why: "what is in a poison queue is looked at by operators, too; it doesn't know who put it there", tests: world},
		{pkg: "spool", may: []string{"channel", "internal/wire", "internal/storecall", "internal/flock", "internal/beside", "storage", "storage/sqlite"}, vendor: true, why: "it is a file on this machine, so it names the one driver that keeps files; it knows messages on their way to a store, not what is done with them", tests: world},
		{pkg: "throttle", may: []string{"internal/metrics", "storage"}, vendor: true, why: "it stands before whatever takes requests, and looks at a queue's length; it doesn't know what is sent, nor by whom", tests: world},
		{pkg: "internal/handling/verdict", may: []string{"values", "internal/wire", "storage", "internal/contain"}, why: "it says what an error means for a message; it handles none"},
		{pkg: "internal/handling/usercode", may: []string{"internal/handling/verdict", "internal/contain"}, why: "it calls the user's code and doesn't know what the code is for"},
		{pkg: "internal/handling/once", may: []string{"internal/handling/verdict", "internal/handling/usercode", "internal/agree", "internal/right", "internal/lru", "internal/wire", "values", "storage"}, why: "it notes effects in rows; it doesn't know who runs them", tests: append([]string{"channel"}, world...)},
		{pkg: "internal/handling", may: []string{"internal/handling/verdict", "internal/handling/usercode", "coord/keylock", "values", "channel", "internal/wire", "internal/tracing", "storage", "internal/jsonform", "internal/right", "internal/contain"}, vendor: true, why: "it handles messages; it knows neither who runs it, nor that views exist"},
		{pkg: "handlers", may: []string{"internal/handling", "internal/handling/verdict", "internal/handling/once", "values", "channel", "internal/wire", "storage"}, why: "it is what a program says of its handlers; it doesn't know who runs them, nor that views exist", tests: append([]string{"worker", "internal/tracing"}, world...)},
		{pkg: "views", may: []string{"internal/lru", "internal/seldom", "internal/wire", "handlers", "internal/handling", "values", "channel", "storage"}, vendor: true, why: "views are projections, registered as handlers; they don't know who runs them", tests: append([]string{"worker", "internal/handling/verdict"}, world...)},
		{pkg: "views/viewstest", may: []string{"views", "handlers", "values", "channel", "storage", "storage/storagetest"}, vendor: true, why: "it helps users test their projections; it knows what projections know"},
		{pkg: "worker", may: []string{"internal/storecall", "internal/right", "handlers", "internal/handling/...", "values", "channel", "internal/wire", "internal/tracing", "storage", "storage/inbox", "poison", "internal/wall", "internal/contain"}, vendor: true, why: "the host runs handlers of any kind; it knows no view, no driver, no sample, and none of the limiters that it asks", tests: append([]string{"views", "worker/limiters", "coord/keylock"}, world...)},
		{pkg: "worker/limiters", may: []string{"worker", "coord/gate", "coord/pause", "coord/members", "throttle", "storage", "internal/metrics"}, vendor: true, why: "it holds queues by what it is told elsewhere; the worker doesn't know of it", tests: append([]string{"channel", "handlers"}, world...)},
		{pkg: "ops/catalog", may: []string{"worker", "handlers", "internal/handling/usercode", "channel", "internal/wire", "internal/jsonform", "storage"}, why: "it tells what a registry handles and what a worker has counted; neither knows of it, and it doesn't know who reads", tests: world},
		{pkg: "ops/internal/known", may: []string{"ops/catalog", "ops/internal/reveal", "channel", "process", "storage", "storage/lanes"}, why: "it answers what programs have published, and doesn't know who asks"},
		{pkg: "ops/internal/reveal", vendor: true, why: "it hides what JSON holds; it doesn't know who asks, nor of what the JSON is", tests: []string{"internal/jsonform"}},
		{pkg: "ops/internal/faults", why: "it tells whose words are in the text of an error; it knows no error but by its words", tests: []string{"guard", "handlers", "internal/handling/verdict", "internal/wire", "values"}},
		{pkg: "ops/act", may: []string{"ops/internal/reveal", "ops/internal/faults", "ops/internal/known", "ops/audit", "ops/catalog", "handlers", "channel", "internal/wire", "internal/storecall", "storage"}, why: "it is what an act is and a desk to do it at; it knows no act, and not who asks for one", tests: world},
		{pkg: "ops/internal/look", may: []string{"ops/act", "ops/catalog", "ops/internal/known", "internal/wire", "coord/gate", "coord/keylock", "coord/pause", "poison", "storage", "storage/lanes"}, vendor: true, why: "it is what acts, findings and screens look at alike; it knows none of them"},
		{pkg: "ops/watch", may: []string{"ops/act", "ops/catalog", "ops/internal/look", "storage"}, why: "it looks at queues again and again; it doesn't know what shows them"},
		{pkg: "ops/doctor", may: append([]string{"internal/processes", "ops/act", "ops/catalog", "ops/internal/faults", "ops/internal/known", "ops/internal/look", "ops/internal/tuning", "ops/internal/bulk"}, framework...), why: "it judges all that the framework keeps; it acts on nothing, and doesn't know who asks", tests: append([]string{"ops/audit"}, world...)},
		{pkg: "ops/internal/draft", may: []string{"ops/act", "ops/catalog", "handlers", "channel", "internal/wire", "internal/handling/usercode", "storage"}, vendor: true, why: "it makes a message of what a person has written; it doesn't know for which act", tests: []string{"internal/jsonform"}},
		{pkg: "ops/internal/applied", may: []string{"ops/act", "handlers", "channel", "values", "internal/handling/once", "poison", "storage"}, vendor: true, why: "it looks for a message in the records of handlers; it doesn't know why somebody asks", tests: []string{"ops/catalog", "ops/internal/known"}},
		{pkg: "ops/internal/poisoned", may: []string{"ops/act", "ops/internal/look", "ops/internal/applied", "ops/internal/known", "ops/internal/reveal", "coord/keylock", "poison", "channel", "internal/wire", "storage"}, vendor: true, why: "it knows which entries of poison queues are meant, and not what becomes of them", tests: append([]string{"handlers", "ops/catalog"}, world...)},
		{pkg: "ops/internal/bulk", may: []string{"ops/act", "ops/audit", "ops/internal/poisoned", "poison", "channel", "internal/agree", "internal/storecall", "storage"}, vendor: true, why: "it does one act on many entries of poison queues, whoever asks; it doesn't know where people see it", tests: append([]string{"internal/agreetest"}, world...)},
		{pkg: "ops/internal/unsend", may: []string{"ops/act", "channel", "internal/wire", "storage"}, why: "it takes messages out of queues; it doesn't know who has sent them, nor who handles them"},
		{pkg: "ops/internal/instances", may: []string{"ops/act", "internal/processes", "process", "storage"}, why: "it knows which instances are meant, and not what becomes of them"},
		{pkg: "ops/internal/track", may: []string{"ops/act", "channel", "internal/wire", "poison", "storage"}, why: "it finds out where messages are; it doesn't know who asks, nor what becomes of them"},
		{pkg: "ops/internal/tuning", may: []string{"ops/act", "settings", "storage"}, why: "it helps people with settings, and changes none", tests: world},
		{pkg: "ops/acts", may: append([]string{"ops/act", "ops/doctor", "ops/internal/look", "ops/internal/draft", "ops/internal/applied", "ops/internal/poisoned", "ops/internal/bulk", "ops/internal/tuning", "ops/internal/instances", "ops/internal/unsend", "ops/internal/track", "ops/audit", "ops/internal/known", "ops/catalog", "internal/wire", "internal/processes"}, framework...), vendor: true, why: "an operator acts on all that the framework keeps; no act knows whether a terminal or a page asked for it", tests: world},
		{pkg: "ops/internal/login", may: []string{"ops/act", "internal/lru"}, why: "it knows who asks and their role; it doesn't know what they ask for"},
		{pkg: "ops", may: []string{"files/assets", "ops/internal/login", "ops/act", "ops/acts", "ops/audit", "ops/catalog", "ops/doctor", "ops/watch", "ops/internal/bulk", "ops/internal/draft", "internal/chart", "internal/contain", "internal/processes", "internal/seldom", "process", "storage"}, vendor: true, why: "it shows acts as pages and as an API; it doesn't know who serves them", tests: append([]string{"worker", "poison", "handlers", "channel", "schedule", "settings", "coord/ids", "coord/lease", "coord/gate", "coord/pause", "coord/signal", "internal/browsertest", "coord/keylock"}, world...)},
		{pkg: "ops/alert", may: []string{"ops/act", "ops/doctor", "coord/leader", "coord/lease", "channel", "internal/contain", "internal/storecall", "storage"}, vendor: true, why: "it notes what doctor has found, and tells it to a hook; it doesn't know how people are reached", tests: append([]string{"ops/catalog", "internal/agreetest"}, world...)},
		{pkg: "guard/internal/breaker", may: []string{"internal/lru"}, why: "it is the breaker of one process as a pure machine: it knows times and outcomes, and neither calls, stores nor other processes"},
		{pkg: "guard/internal/fleet", may: []string{"guard/internal/breaker", "internal/agree", "internal/storecall", "storage"}, why: "it makes the breakers of all processes act as one by a document; it doesn't know what is called"},
		{pkg: "guard", may: []string{"guard/internal/breaker", "guard/internal/fleet", "internal/right", "worker", "handlers", "internal/wire", "internal/metrics", "coord/limit", "storage", "internal/contain"}, vendor: true, why: "it judges the calls of any service, and sets a worker's turn by that; the worker doesn't know of it", tests: append([]string{"channel", "process", "millracetest", "internal/handling/verdict"}, world...)},
		{pkg: "process/internal/flow", may: []string{"channel", "internal/wire", "internal/contain"}, vendor: true, why: "it is the pure part of processes: it knows messages, and neither stores nor handlers", tests: []string{"internal/jsonform"}},
		{pkg: "process", may: []string{"internal/right", "process/internal/flow", "handlers", "internal/handling/...", "values", "channel", "internal/wire", "internal/jsonform", "internal/metrics", "internal/lru", "storage", "internal/contain"}, vendor: true, why: "a plan is a handler of many kinds over a collection; it doesn't know who runs the handlers", tests: append([]string{"millracetest", "worker", "poison", "schedule"}, world...)},
		{pkg: "internal/processes", may: []string{"process", "channel", "storage", "internal/seldom", "ops/act"}, why: "it shows instances to people; it doesn't know who serves the pages, nor which acts there are", tests: append([]string{"handlers", "worker"}, world...)},
		{pkg: "schedule", may: []string{"internal/storecall", "handlers", "internal/handling/...", "values", "channel", "internal/wire", "internal/metrics", "storage"}, vendor: true, why: "it is value objects that send themselves messages; it doesn't know who runs their handlers", tests: append([]string{"worker", "poison", "millracetest", "internal/faulttest"}, world...)},
		{pkg: "sample/reservations/app", may: append([]string{"host", "ops/alert", "sample/reservations/..."}, framework...), why: "it makes a program of the sample, and leaves drivers and the process to the host", tests: []string{"millracetest", "ops/doctor"}},
		{pkg: "sample/reservations/...", may: append([]string{"sample/reservations/..."}, framework...), vendor: true, why: "users copy the sample: it must run on any driver, in any program", tests: []string{"millracetest"}},
		{pkg: "proof/simulation", may: framework, vendor: true, why: "it drives the framework as users do, on a store that misbehaves", tests: append([]string{"internal/faulttest"}, world...)},
		{pkg: "proof/scale", may: framework, vendor: true, why: "it measures the framework as users run it, on a model of a store", tests: append([]string{"internal/chart", "internal/rate"}, world...)},
		{pkg: "millracetest", may: append([]string{"internal/contain", "internal/handling/...", "storage/driver", "storage/storagetest", "internal/faulttest", "internal/worldtest", "internal/wire", "internal/jsonform"}, framework...), why: "it helps users test their programs: it knows the framework and a store that works, and no assertion library"},
		{pkg: "internal/lru", vendor: true, why: "it keeps anything and doesn't know what"},
		{pkg: "internal/rate", why: "it holds a caller to a rate and doesn't know of what: the standard library is enough", tests: []string{"storage"}},
		{pkg: "internal/boottest", why: "it starts a program for tests and knows nothing of what they test"},
		{pkg: "internal/worldtest", may: append([]string{"storage/sqlite", "storage/storagetest", "internal/wire"}, framework...), why: "it is the world of the framework's tests, so it knows the framework and a store that works"},
		{pkg: "internal/valettest", may: []string{"files/valet", "channel", "handlers", "worker", "storage", "internal/worldtest"}, why: "it is a program with files and its client, on any store"},
		{pkg: "internal/faulttest", may: append([]string{"storage/driver", "storage/storagetest", "internal/worldtest"}, framework...), why: "it runs any program under faults and does not know what the program does"},
		{pkg: "internal/browsertest", vendor: true, why: "it drives a browser and doesn't know which pages: the standard library and the browser's protocol are enough"},
		{pkg: "internal/chart", why: "it draws numbers and doesn't know what they count: the standard library is enough"},
		{pkg: "proof/model", why: "it holds the protocol, not the code; the test runs spin"},
		{pkg: "deploy", why: "it holds examples; the test reads them and runs the programs", tests: []string{"internal/boottest"}},
		{pkg: "host/...", may: []string{"..."}, vendor: true, why: "it opens any store and runs everything together, so it knows the framework and the drivers"},
		{pkg: "examples/...", may: append([]string{"host", "ops/alert", "storage/sqlite", "storage/azure"}, framework...), why: "a stranger writes such a program: it knows what users see", tests: []string{"millracetest"}},
		{pkg: "cmd/...", may: []string{"..."}, vendor: true, why: "programs wire everything together"},
	}
}

// testsMay is what tests may import beyond their package's own table: working stores, a store that fails on command,
// the law tests for projections, and the turns of tests that take long.
func testsMay() []string {
	return []string{"storage/driver", "storage/sqlite", "storage/azure", "storage/azure/azuretest", "storage/redis", "storage/redis/redistest", "storage/redis/virtualtest", "storage/doorbell", "storage/storagetest", "views/viewstest", "internal/parttest"}
}

// owned are other modules that only one place may import, so that they can be replaced there.
func owned() map[string]struct{ owner, why string } {
	return map[string]struct{ owner, why string }{
		"modernc.org/":                       {"storage/sqlite/internal/engine", "SQLite's C interface appears in one place"},
		"github.com/fsnotify/":               {"storage/sqlite/internal/peers", "folders are watched in one place"},
		"github.com/anishathalye/":           {"storage/storagetest, coord/ids, coord/gate, coord/lease, coord/leader", "histories are checked where their models are, by tests only"},
		"github.com/Azure/":                  {"storage/azure", "an engine's SDK appears in its driver only"},
		"github.com/redis/":                  {"storage/redis/internal/client, storage/redis/redistest", "an engine's client appears in its driver, and in what starts the engine for tests"},
		"github.com/wneessen/":               {"sample/reservations/mail", "how mails are sent is known in one place"},
		"github.com/lmittmann/":              {"host/internal/boot", "how logs look is a program's choice: a library gets a *slog.Logger"},
		"github.com/mattn/go-isatty":         {"host/internal/boot", "how logs look is a program's choice: a library gets a *slog.Logger"},
		"github.com/cloudevents/sdk-go":      {"", "it is the judge of our envelope, for tests only"},
		"github.com/emersion/":               {"", "it is the mail server of the tests"},
		"github.com/go-json-experiment/":     {"internal/wire, values, internal/jsonform, process, process/internal/flow", "bodies and documents are encoded where their form is defined"},
		"go.opentelemetry.io/":               {"internal/tracing, internal/tracing/tracingtest, channel, internal/handling, host", "spans are made in one place; the others name its interfaces"},
		"go.opentelemetry.io/otel/exporters": {"host", "where spans go is a program's choice"},
		"go.opentelemetry.io/otel/sdk":       {"internal/tracing/tracingtest, host", "which spans are kept, and where they go, is a program's choice: a library knows OpenTelemetry's interfaces"},
		"github.com/prometheus/":             {"worker, worker/limiters, guard, ops/cost, ops/alert, process, settings, host, host/internal/boot, cmd/web, internal/metrics, coord/ids, coord/gate, coord/lease, coord/leader, coord/quorum, coord/signal, schedule, throttle, spool", "the worker counts, the programs serve what it counted"},
		"github.com/gabriel-vasile/":         {"files/valet", "what a content is can be told in one place"},
		"github.com/spf13/":                  {"host/internal/operator", "how a command line is read is known in one place: an act has fields"},
		"github.com/santhosh-tekuri/":        {"ops/internal/draft", "what an operator sends is held against its schema in one place"},
		"github.com/hashicorp/golang-lru":    {"internal/lru", "all that is kept is bounded in one way"},
		"github.com/netresearch/go-cron":     {"schedule", "crontab expressions are read in one place"},
	}
}

// A program carries only what its drivers need: package host links SQLite, and no other driver.
func TestHostLinksSQLiteAlone(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "./host").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if strings.HasPrefix(pkg, module+"/storage/azure") || strings.HasPrefix(pkg, "github.com/Azure/") ||
			strings.HasPrefix(pkg, module+"/storage/redis") || strings.HasPrefix(pkg, "github.com/redis/") {
			t.Errorf("host links %s", pkg)
		}
	}
	if !strings.Contains(string(out), module+"/storage/sqlite\n") {
		t.Error("host doesn't link storage/sqlite, so it can open nothing")
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		rule, ok := floorOf(f.pkg)
		if !ok {
			t.Errorf("package %s is not in the house's table: say in arch_test.go where it belongs, what it may import and why", f.pkg)
			continue
		}
		for _, imported := range f.imports() {
			if why := wrong(rule, f, imported); why != "" {
				t.Errorf("%s imports %s: %s", f.name, imported, why)
			}
		}
	}
}

// The table must refuse the imports that it exists for.
func TestTheTableRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg, imported string
		test, want    bool // want: allowed
	}{
		{pkg: "storage", imported: "fmt", want: true},
		{pkg: "storage", imported: "github.com/google/uuid"},
		{pkg: "storage", imported: module + "/channel"},
		{pkg: "storage/sqlite", imported: "modernc.org/sqlite/lib"},
		{pkg: "storage/sqlite", imported: module + "/storage/sqlite/internal/engine", want: true},
		{pkg: "storage/sqlite/internal/engine", imported: "modernc.org/sqlite/lib", want: true},
		{pkg: "storage/sqlite/internal/engine", imported: module + "/storage/driver", want: true},
		{pkg: "storage/sqlite/internal/engine", imported: module + "/storage/sqlite"},
		{pkg: "storage/sqlite/internal/engine", imported: module + "/storage/sqlite/internal/peers"},
		{pkg: "storage/sqlite", imported: module + "/storage", want: true},
		{pkg: "storage/sqlite", imported: module + "/storage/storagetest"},
		{pkg: "storage/sqlite", imported: module + "/storage/storagetest", test: true, want: true},
		{pkg: "storage/sqlite", imported: module + "/storage/sqlite/internal/peers", want: true},
		{pkg: "storage/sqlite", imported: "github.com/fsnotify/fsnotify"},
		{pkg: "storage/sqlite/internal/peers", imported: "github.com/fsnotify/fsnotify", want: true},
		{pkg: "storage/sqlite/internal/peers", imported: module + "/storage/sqlite"},
		{pkg: "storage/sqlite/internal/peers", imported: module + "/storage/driver"},
		{pkg: "storage/sqlite/internal/peers", imported: module + "/storage/sqlite/internal/engine"},
		{pkg: "storage/sqlite/internal/peers", imported: "modernc.org/sqlite/lib"},
		{pkg: "storage/azure", imported: module + "/storage/sqlite"},
		{pkg: "storage/azure", imported: "modernc.org/sqlite"},
		{pkg: "storage/storagetest", imported: "modernc.org/sqlite"},
		{pkg: "storage/storagetest", imported: module + "/channel"},
		{pkg: "channel", imported: module + "/handlers"},
		{pkg: "channel", imported: module + "/internal/wire", want: true},
		{pkg: "channel", imported: "github.com/go-json-experiment/json"},
		{pkg: "internal/wire", imported: "github.com/go-json-experiment/json", want: true},
		{pkg: "internal/wire", imported: module + "/storage", want: true},
		{pkg: "internal/wire", imported: module + "/channel"},
		{pkg: "internal/wire", imported: module + "/channel", test: true},
		{pkg: "sample/reservations", imported: module + "/internal/wire", test: true},
		{pkg: "channel", imported: "github.com/cloudevents/sdk-go/v2"},
		{pkg: "channel", imported: "go.opentelemetry.io/otel/trace", want: true},
		{pkg: "channel", imported: "go.opentelemetry.io/otel/sdk/trace"},
		{pkg: "internal/tracing", imported: "go.opentelemetry.io/otel/sdk/trace"},
		{pkg: "handlers", imported: "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"},
		{pkg: "host", imported: "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", want: true},
		{pkg: "worker", imported: "go.opentelemetry.io/otel/trace"},
		{pkg: "worker", imported: module + "/internal/tracing", want: true},
		{pkg: "channel", imported: "github.com/cloudevents/sdk-go/v2", test: true, want: true},
		{pkg: "values", imported: module + "/channel", want: true},
		{pkg: "values", imported: module + "/handlers"},
		{pkg: "handlers", imported: module + "/views"},
		{pkg: "worker", imported: module + "/handlers", want: true},
		{pkg: "worker", imported: module + "/views"},
		{pkg: "worker", imported: module + "/coord/members"},
		{pkg: "worker", imported: module + "/worker/limiters"},
		{pkg: "worker", imported: module + "/ops/catalog"},
		{pkg: "ops/catalog", imported: module + "/worker", want: true},
		{pkg: "ops/catalog", imported: module + "/host"},
		{pkg: "worker/limiters", imported: module + "/coord/members", want: true},
		{pkg: "worker", imported: module + "/storage/sqlite"},
		{pkg: "worker", imported: module + "/storage/sqlite", test: true, want: true},
		{pkg: "worker", imported: module + "/sample/reservations", test: true},
		{pkg: "values", imported: module + "/internal/worldtest"},
		{pkg: "values", imported: module + "/internal/worldtest", test: true, want: true},
		{pkg: "storage/sqlite", imported: module + "/internal/worldtest", test: true},
		{pkg: "internal/worldtest", imported: module + "/worker", want: true},
		{pkg: "internal/worldtest", imported: module + "/sample/reservations"},
		{pkg: "sample/reservations/site", imported: module + "/sample/reservations", want: true},
		{pkg: "sample/reservations/site", imported: module + "/storage/sqlite"},
		{pkg: "sample/reservations", imported: module + "/host/internal/boot"},
		{pkg: "sample/reservations/app", imported: module + "/host", want: true},
		{pkg: "sample/reservations/app", imported: module + "/storage/sqlite"},
		{pkg: "sample/reservations", imported: module + "/host"},
		{pkg: "host", imported: module + "/storage/sqlite", want: true},
		{pkg: "worker", imported: module + "/host"},
		{pkg: "cmd/web", imported: module + "/storage/sqlite", want: true},
		{pkg: "cmd/web", imported: "modernc.org/sqlite"},
	} {
		rule, ok := floorOf(c.pkg)
		if !ok {
			t.Errorf("package %s is in no floor", c.pkg)
		}
		if why := wrong(rule, source{pkg: c.pkg, test: c.test}, c.imported); (why == "") != c.want {
			t.Errorf("%s (test %v) imports %s: got %q, want allowed=%v", c.pkg, c.test, c.imported, why, c.want)
		}
	}
	if _, ok := floorOf("newcomer"); ok {
		t.Error("a package that nobody has thought about is in a floor")
	}
}

func floorOf(pkg string) (floor, bool) {
	for _, r := range house() {
		if fits(r.pkg, pkg) {
			return r, true
		}
	}
	return floor{}, false
}

func fits(pattern, pkg string) bool {
	if below, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(pkg+"/", below)
	}
	return pattern == pkg
}

// wrong says why a file may not import a package, or returns "".
func wrong(rule floor, f source, imported string) string {
	if isStandard(imported) {
		return ""
	}
	may := append([]string{f.pkg}, rule.may...)
	if f.test {
		may = slices.Concat(may, rule.tests, testsMay())
	}
	if f.test && f.pkg == "." {
		return "" // whole-system examples and tests
	}
	if inside, ok := strings.CutPrefix(imported, module+"/"); ok {
		if slices.ContainsFunc(may, func(p string) bool { return fits(p, inside) }) {
			return ""
		}
		known := may[1:]
		if len(known) == 0 {
			known = []string{"nothing"}
		}
		return rule.why + ". Of this module it may import " + strings.Join(known, ", ")
	}
	for _, prefix := range slices.Backward(slices.Sorted(maps.Keys(owned()))) { // of two that fit, the longer one counts
		o := owned()[prefix]
		if !strings.HasPrefix(imported, prefix) {
			continue
		}
		owners := strings.Split(o.owner, ", ")
		if slices.Contains(owners, f.pkg) || f.test && (o.owner == "" || !strings.Contains(o.owner, "storage/")) {
			return ""
		}
		return o.why + ", not in " + f.pkg
	}
	if !rule.vendor && !f.test {
		return rule.why
	}
	return ""
}

// isStandard reports a package of the standard library: the first element of its path has no dot.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// Helpers of tests must not get into users' programs.
func TestHelpersOfTestsStayInTests(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, imported := range f.imports() {
			helper := strings.HasSuffix(path.Base(imported), "test") && strings.HasPrefix(imported, module)
			if f.test || strings.HasSuffix(f.pkg, "test") || !helper && imported != "testing" {
				continue
			}
			t.Errorf("%s imports %s: helpers of tests are imported by tests only, lest the programs carry them along", f.name, imported)
		}
	}
}

func TestPackageNames(t *testing.T) {
	t.Parallel()
	for pkg := range packages(t) {
		for _, vague := range []string{"util", "utils", "common", "types", "helpers", "misc", "base"} {
			if slices.Contains(strings.Split(pkg, "/"), vague) {
				t.Errorf("package %s: call it by what it is for; everything fits into a package called %s", pkg, vague)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	for pkg, files := range packages(t) {
		var with []string
		onlyTests := !slices.ContainsFunc(files, func(f source) bool { return !f.test })
		for _, f := range files {
			if f.test == onlyTests && f.tree.Doc != nil {
				with = append(with, f.name)
			}
		}
		if len(with) != 1 {
			t.Errorf("package %s has a package comment in %d files %q: want one, which tells its model", pkg, len(with), with)
		}
	}
}

// A package that others can import must have code. Only the root consists of a comment, about the whole.
func TestNoEmptyPackages(t *testing.T) {
	t.Parallel()
	for pkg, files := range packages(t) {
		code, declared := false, false
		for _, f := range files {
			code = code || !f.test
			declared = declared || !f.test && len(f.tree.Decls) > 0
		}
		if pkg != "." && code && !declared {
			t.Errorf("package %s can be imported and holds nothing: put its comment into one of its tests", pkg)
		}
	}
}

func packages(t *testing.T) map[string][]source {
	byPackage := map[string][]source{}
	for _, f := range sources(t) {
		byPackage[f.pkg] = append(byPackage[f.pkg], f)
	}
	if len(byPackage) < 5 {
		t.Fatalf("found packages %q only: the walk is broken", slices.Sorted(maps.Keys(byPackage)))
	}
	return byPackage
}
