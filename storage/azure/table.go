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

	"github.com/millrace-go/millrace/storage"
)

// table implements storage.Table, storage.BatchTable and storage.BatchDeleter.
type table struct {
	part
	c *aztables.Client
}

var (
	_ storage.BatchTable   = (*table)(nil)
	_ storage.BatchDeleter = (*table)(nil)
)

func (s *store) Table(name string) storage.Table {
	full, err := tableName(s.prefix, name)
	return &table{part{s, "table", name, err}, s.tables.NewClient(full)}
}

// entity is a row as it is stored.
type entity struct {
	ETag         string `json:"odata.etag,omitempty"` // in answers only
	PartitionKey string
	RowKey       string
	Data         []byte `json:"data"` // base64
	DataType     string `json:"data@odata.type,omitempty"`
	Op           string `json:"op"` // whose write it is
}

func newEntity(partition, key string, data []byte) (e entity, text []byte, err error) {
	if data == nil {
		data = []byte{} // null would be no property at all
	}
	e = entity{PartitionKey: rowKey(partition), RowKey: rowKey(key), Data: data, DataType: "Edm.Binary", Op: newOp()}
	text, err = json.Marshal(e)
	return e, text, err
}

func (t *table) call(op, partition, key string) *call {
	return t.part.call(op, "row "+t.name+"/"+storage.Quote(partition)+"/"+storage.Quote(key), always)
}

func checkRow(partition, key string) error {
	if err := storage.CheckKey(partition); err != nil {
		return fmt.Errorf("partition: %w", err)
	}
	return storage.CheckKey(key)
}

func (t *table) Get(ctx context.Context, partition, key string) (storage.Row, error) {
	var row storage.Row
	err := t.do(ctx, t.call("get", partition, key), checkRow(partition, key), func(ctx context.Context) error {
		e, err := t.get(ctx, partition, key)
		if err != nil {
			return gone(err)
		}
		row = storage.Row{Key: key, Data: e.Data, ETag: storage.ETag(e.ETag)}
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
		return e, fmt.Errorf("%w: a row that this driver did not write: does another program use the table? %w", storage.ErrUnsupported, err)
	}
	return e, nil
}

func (t *table) create(ctx context.Context, c *call) func() error {
	return func() error {
		_, err := t.c.CreateTable(c.beside(ctx, "create"), nil)
		return err
	}
}

func (t *table) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	check := checkRow(partition, key)
	if check == nil {
		check = checkData(data)
	}
	if check == nil {
		check = cond.Check()
	}
	var tag storage.ETag
	c := t.call("put", partition, key)
	err := t.do(ctx, c, check, func(ctx context.Context) error {
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
				tag = storage.ETag(r.ETag)
				return err
			case cond.IfMatch != "":
				r, err := t.c.UpdateEntity(ctx, text, &aztables.UpdateEntityOptions{IfMatch: etag(cond.IfMatch), UpdateMode: aztables.UpdateModeReplace})
				tag = storage.ETag(r.ETag)
				return err
			}
			r, err := t.c.UpsertEntity(ctx, text, &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
			tag = storage.ETag(r.ETag)
			return err
		}
		err = creating(put(), "TableNotFound", t.create(ctx, c), put)
		if !is(err, http.StatusConflict, "EntityAlreadyExists") && !is(err, http.StatusPreconditionFailed) && !(isMissing(err) && cond.IfMatch != "") {
			return err
		}
		if c.doubtful {
			// A try before this one may have written.
			now, there := t.get(c.beside(ctx, "get"), partition, key)
			switch {
			case there != nil && !isMissing(there):
				return unknown(there)
			case there == nil && now.Op == e.Op:
				tag = storage.ETag(now.ETag)
				return nil
			}
			return unknown(err)
		}
		return lost(err, cond)
	})
	return tag, err
}

func checkData(data []byte) error {
	if len(data) > maxRow {
		return fmt.Errorf("%w: data of %d bytes; at most %d", storage.ErrTooLarge, len(data), maxRow)
	}
	return nil
}

func (t *table) Delete(ctx context.Context, partition, key string, cond storage.Condition) error {
	check := checkRow(partition, key)
	if check == nil {
		check = cond.CheckDelete()
	}
	c := t.call("delete", partition, key)
	return t.do(ctx, c, check, func(ctx context.Context) error {
		if cond.IfMatch != "" && !isETag(cond.IfMatch) {
			if _, err := t.get(c.beside(ctx, "get"), partition, key); err != nil {
				return gone(err)
			}
			return never()
		}
		_, err := t.c.DeleteEntity(ctx, rowKey(partition), rowKey(key), &aztables.DeleteEntityOptions{IfMatch: etag(cond.IfMatch)})
		switch {
		case err == nil, isMissing(err) && c.doubtful:
			return nil // a try before this one has deleted it, if nobody else has
		case !is(err, http.StatusPreconditionFailed):
			return gone(err)
		case c.doubtful:
			return unknown(err)
		}
		return lost(err, cond)
	})
}

func (t *table) Query(ctx context.Context, partition string, r storage.RowRange) iter.Seq2[storage.Row, error] {
	return func(yield func(storage.Row, error) bool) {
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
		check := storage.CheckKey(partition)
		p := t.c.NewListEntitiesPager(o)
		n := 0
		for p.More() {
			var page aztables.ListEntitiesResponse
			c := t.call("query", partition, "")
			c.resource = "partition " + t.name + "/" + storage.Quote(partition)
			err := t.do(ctx, c, check, func(ctx context.Context) (err error) {
				page, err = p.NextPage(ctx)
				return err
			})
			if is(err, http.StatusNotFound, "TableNotFound") {
				return
			}
			if err != nil {
				yield(storage.Row{}, err)
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
					yield(storage.Row{}, &storage.Error{Op: "query", Resource: c.resource, Err: err})
					return
				}
				if !yield(storage.Row{Key: key, Data: e.Data, ETag: storage.ETag(e.ETag)}, nil) {
					return
				}
				if n++; n == r.Limit {
					return
				}
			}
		}
	}
}

// PutBatch implements storage.BatchTable by one transaction of the service. Repeating it is harmless.
func (t *table) PutBatch(ctx context.Context, partition string, rows []storage.RowPut) error {
	c := t.call("put batch", partition, "")
	c.resource = "partition " + t.name + "/" + storage.Quote(partition)
	for _, r := range rows {
		c.size += len(r.Data)
	}
	return t.do(ctx, c, t.s.Props().CheckBatch(partition, rows), func(ctx context.Context) error {
		if len(rows) == 0 {
			return nil
		}
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

// DeleteBatch implements storage.BatchDeleter by one transaction of the service. It refuses the whole when a row isn't there, because
// another process, or a try before this one, has deleted it; then each is deleted by itself.
func (t *table) DeleteBatch(ctx context.Context, partition string, keys []string) error {
	c := t.call("delete batch", partition, "")
	c.resource = "partition " + t.name + "/" + storage.Quote(partition)
	return t.do(ctx, c, storage.CheckDeleteBatch(partition, keys), func(ctx context.Context) error {
		if len(keys) == 0 {
			return nil
		}
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

// reveal turns the answer to a transaction that was refused, 202 for the whole, into that of the part which failed: nothing was
// done then. So the policies above it see what the service means, and repeat what is to be repeated.
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
			if strings.HasPrefix(p, "{") { // one answer to all of them
				status, refused = http.StatusBadRequest, p
			}
			continue
		}
		if n, err := strconv.Atoi(p[:min(3, len(p))]); err == nil && n >= 400 {
			status, refused = n, p
			if n != http.StatusFailedDependency { // that is another's fault
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
