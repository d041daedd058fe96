import psycopg

psycopg.connect("host=@host@ port=@port@")
