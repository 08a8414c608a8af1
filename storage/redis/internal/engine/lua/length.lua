-- Counts a list's elements. The argument: 6 list. The reply: now, 0, 0, how many wait, how many consumers hold.
return {now, 0, 0, waiting, holding}
