// Package app is the sample as a program: its settings, and what it opens. The programs in cmd are made from it.
package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/worker"
)

const (
	// mailFolder is where mails go when there is no SMTP server.
	mailFolder = "data/mail"

	// maxSeats bounds -seats, because the value object of a date holds all that is accepted for it.
	maxSeats = 10_000
)

// Program returns the sample.
func Program() host.Program {
	p := &program{smtp: newMailGuard()}
	return host.Program{
		Name:     "reservations",
		Routes:   reservations.Routes,
		Register: p.register,
		Web:      p.web,
		Flags:    p.flags,
		Start:    p.start,
		Alert:    p.alert,
		Rebuild:  map[string]host.Rebuild{"months": months()},
		Alias:    reservations.Alias,
		Guards:   map[string]*guard.Guard{reservations.MailQueue: p.smtp}, // the queue waits while the mail server is away
		// worker.Limiters() without a limiter means always: handlers of mails mostly wait, so -active doesn't bound
		// their workers.
		Worker: worker.Config{Queues: map[string]worker.QueueConfig{reservations.MailQueue: {Limiter: worker.Limiters()}}},
	}
}

// A program has the sample's own settings, and what is made of them.
type program struct {
	seats   *int
	zone    *time.Location // of the restaurant
	keep    *int           // days for which the documents of a date are kept
	mails   reservations.Mails
	smtp    *guard.Guard         // around the calls of the mail server
	mailsTo string               // in words for people
	alerts  *string              // the address of whoever operates the program; empty for none
	numbers *ids.Sequence        // nil where no worker runs
	year    *int                 // of the season; 0 for none
	opens   time.Time            // the season; zero for no announcement
	season  *reservations.Season // nil for none

	proxies             *int // see site.Config
	perAddress, perMail *int // defaults of Live

	elsewhere *string     // the URL of another origin that has the static files; empty for none
	static    *assets.Set // nil where no web runs

	files      *valet.Valet // of menu wishes
	kitchenKey *string      // see site.Config

	live *settings.Settings[Live]
	site atomic.Pointer[site.Site] // nil where no web runs
}

func (p *program) flags(f *host.Flags) {
	p.seats = f.Int("seats", 40, 1, maxSeats, "the number of `SEATS` of the restaurant; all programs of one system use the same")
	zone := f.String("zone", "", "the restaurant's time `ZONE`, for example Europe/Berlin, which decides when a day begins; all programs of one\n"+
		"system use the same. Defaults to that of the variable TZ, or UTC")
	f.Check("zone", func() error { return p.setZone(*zone) })
	p.keep = f.Int("retention", 90, reservations.MinRetention, 3650, "how many `DAYS` after a date its reservations are kept, with names and addresses; then an archive without them.\n"+
		"Only a worker needs it")
	smtp := f.String("smtp", "", "the `URL` of the SMTP server for mails, for example smtp://localhost:25?from=tables@example.org\n"+
		"or smtps://USER:PASSWORD@HOST:465. Without one, each mail becomes a file in "+mailFolder)
	f.Check("smtp", func() error { return p.setMailer(*smtp) })
	p.alerts = f.String("alerts", "", "the e-mail `ADDRESS` of whoever operates the program. Workers mail what is wrong with the store, once when it\n"+
		"begins and once when it is over. Only a worker needs it. Defaults to none")
	f.Check("alerts", p.checkAlerts)
	url := f.String("url", "", "the public `URL` of the site, for example https://tables.example.org. With it, mails contain the link to the\n"+
		"reservation, which can cancel it. Only a worker needs it")
	f.Check("url", func() (err error) {
		if *url != "" {
			p.mails.Receipt, err = site.Receipts(*url)
		}
		return err
	})
	p.year = f.Int("season", 0, 0, 9999, "a `YEAR` whose dates can be booked only once the gate season-YEAR is open. Only a web needs it. 0 means none")
	f.Check("season", func() error {
		if latest := time.Now().Year() + 5; *p.year != 0 && (*p.year < 2000 || *p.year > latest) {
			return fmt.Errorf("want 0, or a year from 2000 to %d", latest)
		}
		return nil
	})
	rate := f.Int("mail-rate", 0, 0, maxMailRate, "how many `MAILS` all workers together send in a minute at most, 12 or more; 0 means no limit."+whileRunning+
		" guards.smtp.rate, in mails a second")
	f.Check("mail-rate", func() error { return setMailRate(p.smtp, *rate) })
	opens := f.String("season-opens", "", "the `TIME` to announce for the opening of the season, for example 2026-12-01T10:00:00+01:00. It is announced\n"+
		"once: to change it later, open or close the gate with the operator's program millrace")
	p.perAddress = f.Int("per-address", 300, 0, maxPerDoor, "how many `RESERVATIONS` one IP address may ask for in a minute, of each web; 0 means no limit. Requests from the\n"+
		"web's own machine are not counted. Only a web needs it."+whileRunning+" perAddress")
	p.perMail = f.Int("per-mail", 20, 0, maxPerDoor, "how many `RESERVATIONS` may be asked for with one e-mail address in an hour, likewise."+whileRunning+" perMail")
	p.proxies = f.Int("proxies", 0, 0, 10, "the number of `PROXIES` before the web that add their client's address to X-Forwarded-For. Without it, everybody\n"+
		"behind a proxy has one address, and behind one on the web's own machine nobody is counted. With it, keys of files\n"+
		"are for requests of which a proxy says, by X-Forwarded-Proto, that they came over HTTPS. Only a web needs it")
	p.elsewhere = f.String("assets", "", "the `URL` of a place that has the site's static files, too, and ends with a slash; millrace assets push puts them\n"+
		"there. Pages name it once it has all files. Only a web needs it. Defaults to none")
	p.kitchenKey = f.String("kitchen-key", "", "the `PASSWORD` of the restaurant's own pages, /evenings/DATE: who comes on a date, with their menu wishes. Its user\n"+
		"name is kitchen, and it has 16 bytes or more. Only a web needs it. Defaults to none, and no such pages")
	f.Check("kitchen-key", func() error { return site.CheckKitchenKey(*p.kitchenKey) })
	f.Check("season-opens", func() error { return p.setOpening(*opens) })
}

func (p *program) setZone(name string) (err error) {
	if name == "" {
		name = time.Local.String()
	}
	if name == "Local" { // the machine's own, whose name nobody knows
		name = "UTC"
	}
	if p.zone, err = time.LoadLocation(name); err != nil {
		return errors.New("want a time zone such as Europe/Berlin")
	}
	p.mails.Now = p.now
	return nil
}

// now tells the time at the restaurant.
func (p *program) now() time.Time { return time.Now().In(p.zone) }

func (p *program) setOpening(text string) (err error) {
	if text == "" {
		return nil
	}
	p.opens, err = time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return errors.New("want a time like 2026-12-01T10:00:00+01:00")
	case *p.year == 0:
		return errors.New("want -season, too")
	case p.opens.Year() > *p.year || p.opens.Year() < *p.year-10:
		return errors.New("want a time before the end of the season, and at most ten years before it")
	}
	return nil
}

func (p *program) setMailer(smtp string) error {
	if smtp == "" {
		p.mails.Mailer, p.mailsTo = guarded{mail.NewFolder(mailFolder), p.smtp}, "files in "+mailFolder
		return nil
	}
	server, err := mail.NewSMTP(smtp, mail.SMTPConfig{})
	if err != nil {
		return err
	}
	p.mails.Mailer, p.mailsTo = guarded{server, p.smtp}, server.String()
	return nil
}

func (p *program) start(ctx context.Context, a *host.App) (err error) {
	if err := p.openLive(ctx, a); err != nil {
		return err
	}
	a.Say("Mails go to %s. A day begins at midnight in %s.", p.mailsTo, p.zone)
	if err := p.openFiles(a); err != nil {
		return err
	}
	if a.Worker {
		if p.numbers, err = reservations.Numbers(a.Store, ids.Config{Metrics: a.Metrics, Logger: a.Log}); err != nil {
			return err
		}
		a.OnClose(func() error { return p.numbers.Close(context.Background()) }) // gives back the numbers that are left
	}
	if a.Web {
		if err := p.publish(ctx, a); err != nil {
			return err
		}
	}
	if a.Web && *p.year != 0 {
		if p.season, err = reservations.NewSeason(a.Store, *p.year, p.opens, a.Log); err != nil {
			return err
		}
		a.Go("season", p.season.Follow)
	}
	return nil
}

// openFiles makes the keys of menu wishes. Behind proxies every connection comes from one of them, so whatever connects
// may say that a guest has come over HTTPS.
func (p *program) openFiles(a *host.App) (err error) {
	cfg := valet.Config{Logger: a.Log}
	if *p.proxies > 0 {
		cfg.Proxies = []string{"0.0.0.0/0", "::/0"}
	}
	if !reservations.KeepsFiles(a.Store) {
		a.Say("The store keeps no files, so guests can't add menu wishes.")
	}
	p.files, err = reservations.Files(a.Channels, cfg)
	return err
}

// publish puts the static files where webs of other versions find them. While the store is away, that waits.
func (p *program) publish(ctx context.Context, a *host.App) (err error) {
	if p.static, err = site.Assets(*p.elsewhere, a.Log); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if p.static.Publish(soon, a.Store) != nil { // Run logs why
		a.Go("assets", func(ctx context.Context) error { return p.static.Run(ctx, a.Store) })
	}
	return nil
}

func (p *program) register(h *handlers.Registry) error {
	reservations.Register(h, *p.seats, p.mails, p.numbers, p.files)
	reservations.Schedule(h, p.zone.String(), *p.keep)
	return nil
}

// months rebuilds the calendar. The seats count only for dates without a document, which the rebuild never reads.
func months() host.Rebuild {
	return host.Rebuild{
		From:  "capacity",
		Clear: func(ctx context.Context, c *channel.Channels) error { return reservations.Months(c).Clear(ctx) },
		Run: func(ctx context.Context, c *channel.Channels) (int, error) {
			return reservations.RebuildMonths(ctx, c, 0)
		},
	}
}

func (p *program) web(a *host.App) (http.Handler, error) {
	now, files := p.live.Now(), p.files
	if !reservations.KeepsFiles(a.Store) {
		files = nil
	}
	s, err := site.New(a.Channels, site.Config{Now: p.now, Logger: a.Log, Stopping: a.Stopping, Assets: p.static, Seats: *p.seats, Season: p.season,
		Files: files, KitchenKey: *p.kitchenKey,
		PerAddress: now.PerAddress, PerMail: now.PerMail, Proxies: *p.proxies, RateLimiter: throttle.Config{Metrics: a.Metrics}})
	if err != nil {
		return nil, err
	}
	p.site.Store(s)
	host.Follow(p.live, func(now Live) {
		if err := s.SetLimits(now.PerAddress, now.PerMail); err != nil {
			a.Log.Error("the site keeps its limits", "error", err)
		}
	})
	return s, nil
}
