package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/bench/peers/child"
)

const topic = "jobs"

type watermillClient struct {
	publisher   *wsql.Publisher
	subscriber  *wsql.Subscriber
	subscribers int
	operations  func(context.Context) (int64, error)
}

// openWatermill opens Watermill with its schema for queues. For batch, poll and connections, 0 is the default.
func openWatermill(subscribers, batch int, poll time.Duration, connections int) openFunc {
	return func(ctx context.Context, spec child.Spec) (child.Client, error) {
		pool, err := openPool(ctx, spec, connections)
		if err != nil {
			return nil, err
		}
		db, schema := wsql.BeginnerFromPgx(pool), wsql.PostgreSQLQueueSchema{SubscribeBatchSize: batch}
		c := &watermillClient{subscribers: subscribers, operations: transactions(spec)}
		c.publisher, err = wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: schema}, watermill.NopLogger{})
		if err != nil {
			return nil, err
		}
		c.subscriber, err = wsql.NewSubscriber(db, wsql.SubscriberConfig{
			PollInterval: poll, SchemaAdapter: schema, OffsetsAdapter: wsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true},
		}, watermill.NopLogger{})
		if err != nil {
			return nil, err
		}
		return c, c.subscriber.SubscribeInitialize(topic)
	}
}

// openWatermillTuned uses the best of twelve settings for each work.
func openWatermillTuned(ctx context.Context, spec child.Spec) (child.Client, error) {
	subscribers, batch := 4, 1000
	if spec.Work == child.Balanced {
		subscribers, batch = 1, 100
	}
	return openWatermill(subscribers, batch, 10*time.Millisecond, 32)(ctx, spec)
}

func (c *watermillClient) Send(ctx context.Context, j child.Job) error {
	return c.Fill(ctx, []child.Job{j})
}

func (c *watermillClient) Fill(ctx context.Context, jobs []child.Job) error {
	all := make([]*message.Message, len(jobs))
	for i, j := range jobs {
		body, err := json.Marshal(j)
		if err != nil {
			return err
		}
		all[i] = message.NewMessageWithContext(ctx, watermill.NewUUID(), body)
	}
	return c.publisher.Publish(topic, all...)
}

func (c *watermillClient) Start(ctx context.Context, handle func(child.Job)) error {
	for range c.subscribers {
		messages, err := c.subscriber.Subscribe(ctx, topic)
		if err != nil {
			return err
		}
		go func() {
			for msg := range messages {
				var j child.Job
				if err := json.Unmarshal(msg.Payload, &j); err != nil {
					msg.Nack()
					continue
				}
				handle(j)
				msg.Ack()
			}
		}()
	}
	return nil
}

func (c *watermillClient) Operations(ctx context.Context) (int64, error) { return c.operations(ctx) }
