import psycopg

psycopg.connect("""@snippet@""")
