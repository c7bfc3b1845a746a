"""Other people's sites and files, read by declarations and measured against known truth. The content lies beside the
checkout; none of it is kept here.
"""
