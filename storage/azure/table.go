package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/millrace-go/millrace/storage/driver"
)

// table implements driver.Table.
type table struct {
	part
	c *aztables.Client
}

func (s *store) Table(name string) driver.Table {
	return &table{part{s, "table", name}, s.tables.NewClient(tableName(s.prefix, name))}
}

// entity is a row as it is stored.
type entity struct {
	ETag         string `json:"odata.etag,omitempty"` // in answers only
	PartitionKey string
	RowKey       string
	Data         []byte `json:"data"` // base64
	DataType     string `json:"data@odata.type,omitempty"`
	Op           string `json:"op"` // the operation ID of the last write
}

func newEntity(partition, key string, data []byte) (e entity, text []byte, err error) {
	if data == nil {
		data = []byte{} // with null the entity would have no such property
	}
	e = entity{PartitionKey: rowKey(partition), RowKey: rowKey(key), Data: data, DataType: "Edm.Binary", Op: newOp()}
	text, err = json.Marshal(e)
	return e, text, err
}

func (t *table) Get(ctx context.Context, partition, key string) (driver.Row, error) {
	var row driver.Row
	err := t.do(ctx, t.call("get", always), func(ctx context.Context) error {
		e, err := t.get(ctx, partition, key)
		if err != nil {
			return gone(err)
		}
		row = driver.Row{Key: key, Data: e.Data, ETag: driver.ETag(e.ETag)}
		return nil
	})
	return row, err
}

func (t *table) get(ctx context.Context, partition, key string) (entity, error) {
	r, err := t.c.GetEntity(ctx, rowKey(partition), rowKey(key), nil)
	if err != nil {
		return entity{}, err
	}
	e, err := readEntity(r.Value)
	if r.ETag != "" {
		e.ETag = string(r.ETag)
	}
	return e, err
}

func readEntity(text []byte) (entity, error) {
	var e entity
	if err := json.Unmarshal(text, &e); err != nil {
		return e, fmt.Errorf("%w: a row that this driver did not write: does another program use the table? %w", driver.ErrUnsupported, err)
	}
	return e, nil
}

func (t *table) create(ctx context.Context, c *call) func() error {
	return func() error {
		_, err := t.c.CreateTable(c.beside(ctx, "create"), nil)
		return err
	}
}

func (t *table) Put(ctx context.Context, partition, key string, data []byte, cond driver.Condition) (driver.ETag, error) {
	var tag driver.ETag
	c := t.call("put", always)
	err := t.do(ctx, c, func(ctx context.Context) error {
		if cond.IfMatch != "" && !isETag(cond.IfMatch) {
			return never()
		}
		e, text, err := newEntity(partition, key, data)
		if err != nil {
			return err
		}
		put := func() error {
			switch {
			case cond.IfAbsent:
				r, err := t.c.AddEntity(ctx, text, nil)
				tag = driver.ETag(r.ETag)
				return err
			case cond.IfMatch != "":
				r, err := t.c.UpdateEntity(ctx, text, &aztables.UpdateEntityOptions{IfMatch: etag(cond.IfMatch), UpdateMode: aztables.UpdateModeReplace})
				tag = driver.ETag(r.ETag)
				return err
			}
			r, err := t.c.UpsertEntity(ctx, text, &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
			tag = driver.ETag(r.ETag)
			return err
		}
		err = creating(put(), "TableNotFound", t.create(ctx, c), put)
		if !is(err, http.StatusConflict, "EntityAlreadyExists") && !is(err, http.StatusPreconditionFailed) && !(isMissing(err) && cond.IfMatch != "") {
			return err
		}
		if c.doubtful {
			// An earlier try may have written.
			now, there := t.get(c.beside(ctx, "get"), partition, key)
			switch {
			case there != nil && !isMissing(there):
				return unknown(there)
			case there == nil && now.Op == e.Op:
				tag = driver.ETag(now.ETag)
				return nil
			}
			return unknown(err)
		}
		return lost(err, cond)
	})
	return tag, err
}

func (t *table) Delete(ctx context.Context, partition, key string, cond driver.Condition) error {
	c := t.call("delete", always)
	return t.do(ctx, c, func(ctx context.Context) error {
		if cond.IfMatch != "" && !isETag(cond.IfMatch) {
			if _, err := t.get(c.beside(ctx, "get"), partition, key); err != nil {
				return gone(err)
			}
			return never()
		}
		_, err := t.c.DeleteEntity(ctx, rowKey(partition), rowKey(key), &aztables.DeleteEntityOptions{IfMatch: etag(cond.IfMatch)})
		switch {
		case err == nil, isMissing(err) && c.doubtful:
			return nil // an earlier try has deleted it, or another caller
		case !is(err, http.StatusPreconditionFailed):
			return gone(err)
		case c.doubtful:
			return unknown(err)
		}
		return lost(err, cond)
	})
}

func (t *table) Query(ctx context.Context, partition string, r driver.RowRange) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		var filter strings.Builder
		fmt.Fprintf(&filter, "PartitionKey eq '%s'", rowKey(partition))
		if r.From != "" {
			fmt.Fprintf(&filter, " and RowKey ge '%s'", rowBound(r.From))
		}
		if r.To != "" {
			fmt.Fprintf(&filter, " and RowKey lt '%s'", rowBound(r.To))
		}
		o := &aztables.ListEntitiesOptions{Filter: to.Ptr(filter.String()), Format: to.Ptr(aztables.MetadataFormatFull)}
		if r.Limit > 0 && r.Limit < 1000 {
			o.Top = to.Ptr(int32(r.Limit))
		}
		p := t.c.NewListEntitiesPager(o)
		n := 0
		for p.More() {
			var page aztables.ListEntitiesResponse
			err := t.do(ctx, t.call("query", always), func(ctx context.Context) (err error) {
				page, err = p.NextPage(ctx)
				return err
			})
			if is(err, http.StatusNotFound, "TableNotFound") {
				return
			}
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			for _, text := range page.Entities {
				e, err := readEntity(text)
				var key string
				if err == nil {
					key, err = decode(e.RowKey)
				}
				if err == nil && ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				if err != nil {
					yield(driver.Row{}, err)
					return
				}
				if !yield(driver.Row{Key: key, Data: e.Data, ETag: driver.ETag(e.ETag)}, nil) {
					return
				}
				if n++; n == r.Limit {
					return
				}
			}
		}
	}
}

// PutBatch is one transaction of the service. A repeat is harmless.
func (t *table) PutBatch(ctx context.Context, partition string, rows []driver.RowPut) error {
	c := t.call("put batch", always)
	for _, r := range rows {
		c.size += len(r.Data)
	}
	return t.do(ctx, c, func(ctx context.Context) error {
		actions := make([]aztables.TransactionAction, len(rows))
		for i, r := range rows {
			_, text, err := newEntity(partition, r.Key, r.Data)
			if err != nil {
				return err
			}
			actions[i] = aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace, Entity: text}
		}
		put := func() error {
			_, err := t.c.SubmitTransaction(ctx, actions, nil)
			return err
		}
		return creating(put(), "TableNotFound", t.create(ctx, c), put)
	})
}

// DeleteBatch is one transaction of the service. The service refuses the whole when a row is missing, because
// another process or an earlier try has deleted it. Then each row is deleted by itself.
func (t *table) DeleteBatch(ctx context.Context, partition string, keys []string) error {
	c := t.call("delete batch", always)
	return t.do(ctx, c, func(ctx context.Context) error {
		actions := make([]aztables.TransactionAction, len(keys))
		for i, key := range keys {
			text, err := json.Marshal(map[string]string{"PartitionKey": rowKey(partition), "RowKey": rowKey(key)})
			if err != nil {
				return err
			}
			actions[i] = aztables.TransactionAction{ActionType: aztables.TransactionTypeDelete, Entity: text}
		}
		_, err := t.c.SubmitTransaction(ctx, actions, nil)
		switch {
		case !isMissing(err):
			return err
		case is(err, http.StatusNotFound, "TableNotFound"):
			return nil
		}
		for _, key := range keys {
			_, err := t.c.DeleteEntity(c.beside(ctx, "delete"), rowKey(partition), rowKey(key), nil)
			if err != nil && !isMissing(err) {
				return err
			}
		}
		return nil
	})
}

// reveal turns the answer to a refused transaction, which has the status 202, into the answer of its failed part:
// the whole transaction had no effect. So the policies above see what the service means, and repeat the request
// where they must.
func reveal(resp *http.Response) {
	if resp.StatusCode != http.StatusAccepted {
		return
	}
	body, err := runtime.Payload(resp)
	if err != nil {
		return
	}
	status, refused := 0, ""
	for i, p := range strings.Split(string(body), "\nHTTP/1.1 ") {
		if i == 0 {
			if strings.HasPrefix(p, "{") { // one answer to all rows
				status, refused = http.StatusBadRequest, p
			}
			continue
		}
		if n, err := strconv.Atoi(p[:min(3, len(p))]); err == nil && n >= 400 {
			status, refused = n, p
			if n != http.StatusFailedDependency { // FailedDependency means that another row failed
				break
			}
		}
	}
	if status == 0 {
		return
	}
	_, code, _ := strings.Cut(refused, `"code":"`)
	code, _, _ = strings.Cut(code, `"`)
	resp.StatusCode, resp.Status = status, http.StatusText(status)
	resp.Header.Set("x-ms-error-code", code)
}
