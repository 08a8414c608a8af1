-- Adds elements to a list. The arguments: 6 list, 7 end (F or L), then the elements, the outermost last.
many(PUSH[ARGV[7]], L, from(8))
rings()
changed(1)
return {now, number, lost}
