-- Adds elements to a list. The arguments: 6 list, 7 end (F or L), then the elements, the outermost last. The reply: now,
-- the number of the change, how many changes were lost.
many(PUSH[ARGV[7]], L, from(8))
rings()
changed(1)
return {now, seq, lost}
