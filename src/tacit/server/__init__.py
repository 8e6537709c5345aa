"""The server: many analysts, one curator.

* :mod:`.office`: what every door does for a person: visibility, quotes, questions, budgets, history, receipts
* :mod:`.http`: the door for programs; :mod:`.console`: the one for people; :mod:`.running` opens both
* :mod:`.people`: who may come in, and as what
* :mod:`.settings`, :mod:`.slots`, :mod:`.rates`, :mod:`.errors`: limits, fixed times, and how no is said;
  :mod:`.buckets`: what rates are counted in, by all worker processes together
"""
