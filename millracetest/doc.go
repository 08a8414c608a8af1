// Package millracetest tests programs: decisions by themselves, a program or a plan in virtual time, and a program
// under faults. It needs no other library of tests.
//
//	// A decision, which handlers.Decide or handlers.On registers.
//	buy := millracetest.Decide(t, Stock.Buy)
//	buy.Given(Stock{Left: 3}).When(Buy{Item: "tea", N: 2}).
//		Then(Bought{Item: "tea", N: 2}, channel.After(time.Hour, Remind{Item: "tea"})).
//		ThenValue(Stock{Left: 1})
//	buy.Given(Stock{}).When(Buy{N: 1}).ThenError(ErrNone)
//
//	// A program. Days pass in milliseconds.
//	millracetest.Run(t, program, func(t *testing.T, app *millracetest.App) {
//		app.Send(Buy{Item: "tea", N: 2})
//		app.Drain()
//		got := millracetest.View(t, shop.Sold(app.Channels()), "tea")
//		app.Advance(72 * time.Hour)
//	})
//
//	// A plan of package process, with agents of the test.
//	p := millracetest.Plan("fulfil", shop.fulfil, millracetest.Agents{
//		"charge": func(ctx context.Context, o Order) (Receipt, error) { … },
//	})
//	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
//		orders := process.Open[Order](app.Channels(), "fulfil")
//		…
//		got := millracetest.Timeline(t, app.Store(), "fulfil", "o17")
//	})
//	millracetest.Shuffled(t, Order.Packed, Order{}, "tea", "pot") // what Each gathers
//
//	// A file that comes with a key of package valet: its bytes, its verdict and its end in virtual time.
//	millracetest.Upload(t, v, key, content)
//	app.Drain()
//	app.Advance(time.Hour)
//
//	// A program or a plan with a fault in each storage call.
//	millracetest.CrashEverywhere(t, func(t *testing.T, start func(millracetest.Program) *millracetest.App) {
//		app := start(program(new(fakeBank)))
//		…
//	})
//
//	// A program under random faults.
//	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
//		bank := new(fakeBank) // each seed has its own
//		sim.Start(program(bank))
//		sim.Always("never oversold", func() error { … })
//		for range 20 {
//			sim.Send(Buy{Item: "tea", N: 1 + sim.Rand.IntN(3)})
//			sim.Advance(time.Duration(sim.Rand.IntN(60)) * time.Second)
//		}
//		sim.Settle()
//		… // what holds at the end
//	})
//
// # Decisions
//
// [Decide] calls a decision 64 times with the same value and command, as JSON gives them back. It fails the test if
//
//   - two of these results differ: the decision is not pure;
//   - the decision fails and has changed a map or slice of its value;
//   - the value, the command or the result has a part that JSON doesn't give back.
//
// # A program in virtual time
//
// [Run] runs the test in a bubble of testing/synctest, with a worker on a SQLite store in a temporary file. Time passes
// when everybody waits. It begins at midnight UTC of 2000-01-01. [App.Drain] waits until nothing is left but messages
// that are not due. [App.Wait] only lets time pass, for messages of a key that is halted. [App.Restart] stops the
// worker in order and starts another one; [App.Kill] ends it as a power failure does. There are no sleeps and no ports.
// A fake that reactions call needs no lock for the test's sake, but reactions run at the same time as each other. A
// message in a poison queue fails the test, unless the test has seen it by [App.Poison].
//
// # A plan
//
// [Plan] makes a program of a plan by itself. [Agents] stand in for the plan's own agents, and answer its commands.
// [Timeline] writes an instance down as a text, in which time counts from its start.
//
// [CrashEverywhere] finds out which storage calls the worker of a test makes, and repeats the test for each of them and
// each fault that it can have. Each run must end with the same documents as the one without faults. It runs any
// program, not only plans.
//
// # A program under random faults
//
// [Simulate] runs a program once for each seed. The seed decides how many workers run, and which storage calls fail
// before or after their effect, are late, throttled or repeated. Workers die in a storage call, are cut off from the
// store, or are stopped, and others take their place. So messages come twice, late and in any order. Half of the seeds
// run on a store that takes the steps of a unit of work one by one. Then the faults end, the queues empty, and the laws
// are checked:
//
//   - Each command is decided once. So is each event that a value object or a view takes ([DecidedOnce]). A value that
//     recognises repeats by itself, such as an instance of a process, gets all its messages once more at the end, and
//     none may change it.
//   - Decisions are pure: repeated in the run's order, on another store and another day, they give the same values and
//     emissions ([PureDecisions]). All that they emitted was sent, and nothing else in their name ([EmittedOnce]).
//   - Each view is the fold of its events ([ViewsAreFolds]), and the same in another order of them ([OrderFree]).
//   - Each reaction has succeeded at least once ([ReactionsRun]). That of handlers.ReactOnce has exactly once, but for
//     what its comment says of a note that fails ([EffectsOnce]).
//   - Each instance of a process has ended, or waits without a deadline ([ProcessesEnd]). None is stuck, unless the
//     test expects it ([Sim.ExpectStuck]). The functions of a plan are pure, as decisions are.
//   - The queues are empty ([QueuesAreEmpty]). Poison queues hold only what the test expects ([PoisonExpected]). No
//     worker ended by itself ([WorkersRun]).
//   - The test's invariants hold, after each write of a document and at the end ([Invariant]).
//
// A document that the program changes other than by messages, as a rebuild does, is left out. The run doesn't wait for
// what processes plan ahead for their own sake: their sweeps, and the end of their retention.
//
// A failing seed prints its history, and the command that runs it again:
//
//	MILLRACE_SEED=17 go test -run '^TestShop$'
//
// The seed decides the faults and the workload. It doesn't decide in which order Go runs goroutines, so a rare failure
// may need several runs. MILLRACE_SEEDS=1000 runs more seeds.
package millracetest
