package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
)

const topic, poisoned = "jobs", "poisoned"

type watermillClient struct {
	pool       *pgxpool.Pool
	schema     wsql.PostgreSQLQueueSchema
	publisher  *wsql.Publisher
	subscriber *wsql.Subscriber
	poison     bool
}

// openWatermill opens Watermill with its schema for queues, and perhaps with its poison queue.
func openWatermill(poison bool) func(context.Context, string) (contestant, error) {
	return func(ctx context.Context, place string) (contestant, error) {
		pool, err := pgxpool.New(ctx, place)
		if err != nil {
			return nil, err
		}
		c := &watermillClient{pool: pool, poison: poison}
		db := wsql.BeginnerFromPgx(pool)
		c.publisher, err = wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: c.schema}, watermill.NopLogger{})
		if err != nil {
			return nil, err
		}
		c.subscriber, err = wsql.NewSubscriber(db, wsql.SubscriberConfig{
			SchemaAdapter: c.schema, OffsetsAdapter: wsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true},
		}, watermill.NopLogger{})
		if err != nil {
			return nil, err
		}
		for _, t := range []string{topic, poisoned} {
			if err := c.subscriber.SubscribeInitialize(t); err != nil {
				return nil, err
			}
		}
		return c, nil
	}
}

func (c *watermillClient) Send(ctx context.Context, job int) error {
	body, err := encode(job)
	if err != nil {
		return err
	}
	return c.publisher.Publish(topic, message.NewMessageWithContext(ctx, watermill.NewUUID(), body))
}

func (c *watermillClient) Start(ctx context.Context, do doFunc) error {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	if c.poison {
		around, err := middleware.PoisonQueue(c.publisher, poisoned)
		if err != nil {
			return err
		}
		router.AddMiddleware(around)
	}
	router.AddMiddleware(middleware.Retry{MaxRetries: 3, InitialInterval: 100 * time.Millisecond}.Middleware)
	client := newClient(newTransport())
	router.AddConsumerHandler("jobs", topic, c.subscriber, func(m *message.Message) error {
		job, err := decode(m.Payload)
		if err != nil {
			return err
		}
		return do(m.Context(), client, job)
	})
	go func() {
		if err := router.Run(ctx); err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintln(os.Stderr, "outage: watermill:", err)
			os.Exit(1)
		}
	}()
	return nil
}

func (c *watermillClient) Dead(ctx context.Context) (n int, err error) {
	err = c.pool.QueryRow(ctx, "SELECT count(*) FROM "+c.schema.MessagesTable(poisoned)).Scan(&n)
	return n, err
}
