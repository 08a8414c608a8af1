package folder

import "context"

// Delete implements driver.Files.
func (d *Folder) Delete(ctx context.Context, container, key string) error {
	return d.locked(ctx, container, key, func(s *shelf) error {
		d.intake.sweep(s.root)
		return s.root.fail(s.clear())
	})
}
