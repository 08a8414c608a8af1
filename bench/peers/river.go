package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/bench/peers/riverjobs"
	"github.com/millrace-go/millrace/bench/servers"
)

// openRiver opens River on PostgreSQL. 0 connections are the pool's default.
func openRiver(config river.Config, connections int) openFunc {
	return func(ctx context.Context, spec child.Spec) (child.Client, error) {
		pool, err := openPool(ctx, spec, connections)
		if err != nil {
			return nil, err
		}
		return riverjobs.Open(ctx, riverpgxv5.New(pool), config, transactions(spec))
	}
}

func openPool(ctx context.Context, spec child.Spec, connections int) (*pgxpool.Pool, error) {
	url := servers.PostgresURL(spec.Addr, "postgres")
	if connections > 0 {
		url += fmt.Sprintf(" pool_max_conns=%d", connections)
	}
	return pgxpool.New(ctx, url)
}

// transactions counts PostgreSQL's transactions, on a connection of its own. The server updates its statistics about
// once a second.
func transactions(spec child.Spec) func(context.Context) (int64, error) {
	return func(ctx context.Context) (n int64, err error) {
		conn, err := pgx.Connect(ctx, servers.PostgresURL(spec.Addr, "postgres"))
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close(ctx) }()
		const sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
		err = conn.QueryRow(ctx, sql).Scan(&n)
		return n, err
	}
}
