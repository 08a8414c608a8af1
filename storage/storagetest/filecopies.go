package storagetest

import "github.com/millrace-go/millrace/storage"

func filesCopy(t *check) {
	f, to := t.files(), t.files()
	parts := []string{"one", "two", "three"}
	info := f.make("key", parts...)
	copied, err := f.Copy(t.ctx, "key", info.ETag, to.Files, "other")
	t.ok(err)
	to.is("other", copied, "onetwothree")
	f.is("key", info, "onetwothree")
	t.ok(f.Delete(t.ctx, "key"))
	to.is("other", copied, "onetwothree")
	to.none("key")
	back, err := to.Copy(t.ctx, "other", copied.ETag, f.Files, "key")
	t.ok(err)
	f.is("key", back, "onetwothree")
	f.put("empty", 1, "")
	nothing := f.commit("empty", "")
	copied, err = f.Copy(t.ctx, "empty", nothing.ETag, to.Files, "empty")
	t.ok(err)
	to.is("empty", copied, "")
}

func filesCopyCondition(t *check) {
	f, to := t.files(), t.files()
	refused := func(etag storage.ETag) {
		t.Helper()
		_, err := f.Copy(t.ctx, "key", etag, to.Files, "key")
		t.fails(err, storage.ErrPrecondition, f.name)
		to.none("key")
	}
	refused("etag")
	old := f.make("key", "old")
	refused("etag")
	f.make("key", "new")
	refused(old.ETag)
	t.ok(f.Delete(t.ctx, "key"))
	refused(old.ETag)
}

func filesCopyOver(t *check) {
	f, to := t.files(), t.files()
	old := to.make("key", "one", "two", "three")
	to.put("key", 2, "late")
	info := f.make("key", "another", "file")
	copied, err := f.Copy(t.ctx, "key", info.ETag, to.Files, "key")
	t.ok(err)
	to.is("key", copied, "anotherfile")
	_, err = to.Open(t.ctx, "key", old.ETag, 0, 1)
	t.fails(err, storage.ErrPrecondition, to.name)
	to.make("key", "a file of its own", "again")
	copied, err = f.Copy(t.ctx, "key", info.ETag, to.Files, "key")
	t.ok(err)
	to.is("key", copied, "anotherfile")
	t.ok(to.Delete(t.ctx, "key"))
	to.none("key")
}

func filesCopyAgain(t *check) {
	f, to := t.files(), t.files()
	info := f.make("key", "one", "two", "three")
	crowd(8, func(int) {
		for range 3 {
			if _, err := f.Copy(t.ctx, "key", info.ETag, to.Files, "key"); err != nil {
				t.Errorf("copy: %v", err)
			}
		}
	})
	copied, err := f.Copy(t.ctx, "key", info.ETag, to.Files, "key")
	t.ok(err)
	to.is("key", copied, "onetwothree")
	t.ok(to.Delete(t.ctx, "key"))
	to.none("key")
	copied, err = f.Copy(t.ctx, "key", info.ETag, to.Files, "key")
	t.ok(err)
	to.is("key", copied, "onetwothree")
}
