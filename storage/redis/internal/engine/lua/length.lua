-- Counts a list's elements. The argument: 6 list. The reply goes on with how many wait, and how many consumers hold.
return {now, 0, 0, waiting, holding}
